import { createHash } from 'node:crypto';
import { type CondaPackage, environmentPrefix } from '../../../conda/index.ts';
import type { InjectedLayer } from '../../../images/augment/index.ts';
import { formatPlatform } from '../../../oci/naming.ts';
import {
  type HistoryNote,
  type PythonTarget,
  projectVersion,
  type SourceFile,
  type WheelFile,
} from '../../../pypi/index.ts';
import { type GitCommit, type NamedIndex, projectName } from '../../../pypi/requirements/index.ts';
import type { EnvironmentBase } from '../bases/environment-image.ts';
import { wheelRecipeVersion } from './wheel-recipe.ts';

/** What a wheel is built of: no index has one. */
export type SourceToBuild = ArchiveToBuild | CommitToBuild;

/** A version of a project that has no wheel for an image. */
interface ArchiveToBuild {
  readonly name: string;
  readonly version: string;
  readonly source: SourceFile;
  readonly commit?: undefined;
}

/** A commit of a git repository. Its version is known when it is built. */
export interface CommitToBuild {
  /** Undefined where only the repository has it. */
  readonly name: string | undefined;
  readonly commit: GitCommit;
  readonly source?: undefined;
}

/** What wheels are built for: their environment is the image with its packages of Conda. */
export interface WheelEnvironment extends EnvironmentBase {
  /** True for a base image with an environment of its own, which the packages replace. */
  readonly isReplaced: boolean;
  readonly packages: readonly CondaPackage[];
  readonly target: PythonTarget;
  /** Indexes that the request names. */
  readonly indexes: readonly NamedIndex[];
}

/**
 * Returns the key of a source distribution in an environment: all that its build sees but the wheels that it requires. A build runs
 * the code of its package, so that only callers of one domain share what it makes.
 */
export function keyOfSource(
  given: SourceToBuild,
  { platform, base }: WheelEnvironment,
  { layers, domain }: KeyedPlace,
): string {
  const { commit } = given;
  return keyOf([
    ...['built wheel', wheelRecipeVersion, domain],
    ...(commit
      ? ['git', commit.url, commit.id, commit.subdirectory ?? null]
      : // Who knows the digest of a file on a private index must not get it by naming another address.
        [
          ...[projectName(given.name), projectVersion(given.version)],
          ...[given.source.fileName, given.source.sha256, given.source.url],
        ]),
    ...[formatPlatform(platform), base.digest, environmentPrefix],
    // A lock file may state other digests of the same archives.
    layers.map(({ tarDigest }) => tarDigest),
  ]);
}

/**
 * Returns the key of a wheel for any platform, built on another one: a build there has seen the same versions of everything, of the
 * same channels, and the same files where they are for any platform. A request may name channels and indexes that have other files by
 * these names, and the image of the next one is for all callers. Undefined for a build with wheels of its platform: nothing shows
 * that those of another one are from the same authors.
 */
export function keyOfAny(
  given: SourceToBuild,
  { target, packages, access }: WheelEnvironment,
  wheels: readonly WheelFile[],
  domain: string,
): string | undefined {
  if (!wheels.every(({ fileName }) => fileName.endsWith(endOfAny))) return undefined;
  return keyOf([
    ...['wheel for any platform', wheelRecipeVersion, domain, target.version],
    ...(given.source ? [given.name, given.version, given.source.url, given.source.sha256] : []),
    `${access.registry}/${access.repository}`,
    packages.map(textOfPackage).sort(),
    wheels.map(({ fileName, sha256 }) => `${fileName} ${sha256}`).sort(),
  ]);
}

/** The end of the name of a wheel for any platform. */
export const endOfAny = '-none-any.whl';

/** Returns what a package is on all platforms. */
function textOfPackage({ name, version, url, sha256, md5 }: CondaPackage): string {
  const parts = url.split('/');
  const [subdir = '', file = ''] = parts.splice(-2);
  const isAny = subdir === 'noarch';
  const isListed = isAny || subdir.startsWith('linux-');
  const place = isListed ? parts.join('/') : url;
  return [name, version, place, ...(isAny ? [sha256 ?? md5 ?? file] : [])].join(' ');
}

/** What the key of a wheel has beside its source. */
export interface KeyedPlace {
  readonly layers: readonly InjectedLayer[];
  /** Label of the domain. */
  readonly domain: string;
}

/** Tags decide the version of a commit, and may be added later. */
export function keyOfWheel(
  sourceKey: string,
  wheels: readonly WheelFile[],
  history: HistoryNote | undefined,
): string {
  const names = wheels.map(({ fileName, sha256 }) => `${fileName} ${sha256}`).sort();
  return keyOf([sourceKey, names, ...(history ? [history.label] : [])]);
}

function keyOf(subject: readonly unknown[]): string {
  return createHash('sha256').update(JSON.stringify(subject)).digest('hex');
}
