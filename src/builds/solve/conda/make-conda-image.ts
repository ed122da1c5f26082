import { isDeepStrictEqual } from 'node:util';
import { statusText } from '../../../buildkit/index.ts';
import {
  type BilledWheel,
  type ChannelAccess,
  type CondaPackage,
  type DocumentedSolution,
  environmentPrefix,
  type LayeredPackage,
  type LayerProgress,
  type PartProgress,
  type PlatformSolution,
  type ReformLayers,
} from '../../../conda/index.ts';
import { sizeText } from '../../../foundation/text.ts';
import {
  environmentIn,
  estargzAnnotationsIn,
  type ImageChange,
  type InjectedLayer,
} from '../../../images/augment/index.ts';
import type { Documents } from '../../../images/index.ts';
import { type Document, familyOf, manifestType, parseManifest } from '../../../oci/index.ts';
import { formatPlatform } from '../../../oci/naming.ts';
import type { LayeredEnvironment, LayeredWheel, MixedLayers } from '../../../pypi/index.ts';
import { commitAddress } from '../../../pypi/requirements/index.ts';
import type { Access } from '../../../upstream/index.ts';
import type { RunStep } from '../../logs/run-step.ts';
import type { BuildRights } from '../build-rights.ts';
import type { BuildRun } from '../build-run.ts';
import type { LinkPackages } from '../scripts/script-layers.ts';
import { isRunnable, scriptedPackages } from '../scripts/script-recipe.ts';
import type { BuildWheels } from '../wheels/build-wheels.ts';
import { BuilderRequired, inOrder, type SolvedPlatform } from './builder-required.ts';
import { type FindSolution, type NativeOrigin, specsOf } from './find-solution.ts';

/** An image of Conda packages: a base image, and the change that adds the packages. */
export interface CondaImage {
  readonly source: Access;
  /** A manifest or index of the base image. */
  readonly base: Document;
  readonly change: ImageChange;
  readonly solution: Omit<DocumentedSolution, 'image'>;
}

/**
 * Finds the packages of a build and makes their layers, without a builder. Throws a `Fault`, and {@link BuilderRequired}
 * for packages that only a builder can install.
 */
export type MakeCondaImage = (
  run: Pick<BuildRun, 'signal' | 'onSolved' | 'isTrusted'> & {
    readonly step: RunStep;
    /** Default: packages without a wheel require a builder for the whole image. */
    readonly buildWheels?: BuildWheels | undefined;
    /** Default: packages with a link script require a builder for the whole image. */
    readonly linkPackages?: LinkPackages | undefined;
  },
  rights: BuildRights,
  recipe: NativeOrigin,
) => Promise<CondaImage>;

export interface MakeCondaImageDeps {
  readonly findSolution: FindSolution;
  readonly layers: MixedLayers;
  readonly reformLayers: ReformLayers;
  readonly documents: Documents;
  readonly channels: Pick<ChannelAccess, 'channelsOf'>;
}

export function createMakeCondaImage(deps: MakeCondaImageDeps): MakeCondaImage {
  const { findSolution, layers: packageLayers, documents } = deps;

  /** Returns the layers of an environment as they are compressed in the image. Link scripts run above the usual ones. */
  const inForm = async (
    compression: NativeOrigin['layers'],
    { layers, contents }: Pick<LayeredEnvironment, 'layers' | 'contents'>,
    base: Document | undefined,
    { step, signal }: Pick<Parameters<MakeCondaImage>[0], 'step' | 'signal'>,
  ): Promise<Pick<LayeredEnvironment, 'layers' | 'contents'>> => {
    if (!compression) return { layers, contents };
    const { mode, level, force } = compression;
    const title = `Compress the layers${mode === 'gzip' ? '' : ` as ${mode}`}`;
    return step(title, async ({ write }) => {
      const formed = await deps.reformLayers(layers, { mode, level }, signal);
      const digests = new Map(
        layers.map(({ gzipDigest }, at) => [gzipDigest, formed[at]?.gzipDigest ?? gzipDigest]),
      );
      const bytes = formed.reduce((sum, { gzipSize }) => sum + gzipSize, 0);
      write(`${formed.length} layers, ${sizeText(bytes)}\n`);
      if (mode === 'estargz' && !force && base && !isLazy(base)) write(notLazyText);
      return {
        layers: formed,
        contents: contents.map(({ digest, keys }) => ({
          digest: digests.get(digest) ?? digest,
          keys,
        })),
      };
    });
  };

  return async (run, rights, recipe) => {
    const { step, signal, onSolved, isTrusted, buildWheels, linkPackages } = run;
    const { native } = recipe;
    const { source, base, platforms } = await step('Solve the packages', ({ write, progress }) =>
      findSolution(recipe, rights, {
        log: write,
        signal,
        isAnonymous: !isTrusted,
        buildWheels,
        report: now => progress(partLine({ kind: 'repodata', ...now })),
      }),
    );
    if (recipe.layers?.mode === 'zstd') requireOci(base.images);
    onSolved?.();
    const requested = specsOf(native);
    const made: Made[] = [];
    for (const [at, { platform, subdir, packages, wheels, isReplaced }] of platforms.entries()) {
      const { architecture } = platform;
      const name = `Fetch ${packages.length + wheels.length} packages and make their layers`;
      const title = platforms.length > 1 ? `${name} (${formatPlatform(platform)})` : name;
      const environment = await step(title, ({ write, progress }) =>
        packageLayers.make(
          { packages, wheels, isReplaced },
          { signal, log: write, report: now => progressLines(now).forEach(progress) },
        ),
      );
      const scripted = scriptedPackages(environment.packages);
      const image = base.images[at];
      if (!linkPackages || !image || !scripted.every(isRunnable)) {
        requireNoScripts(environment.packages, platforms);
      }
      const above =
        scripted.length > 0 && image
          ? await linkPackages?.({
              platform,
              access: source,
              base: image,
              layers: environment.layers,
              scripted: inLinkOrder(native, packages, scripted),
            })
          : undefined;
      const formed = await inForm(recipe.layers, environment, image, run);
      const all = [...formed.layers, ...(above ? [above] : [])];
      const layers = all.map(layer => ({ ...layer, architecture }));
      const basePath = await pathIn(documents, source, image);
      made.push({ ...environment, ...formed, subdir, architecture, basePath, layers });
    }
    const bases = native.channels.flatMap(deps.channels.channelsOf);
    return {
      source,
      base: base.root,
      change: changeOf(made, native.wanted.form === 'environment' ? native.wanted.variables : []),
      solution: {
        platforms: made.map(({ subdir, packages, wheels, contents }) => ({
          subdir,
          packages,
          contents,
          wheels: wheels.map(billedWheel),
        })),
        channels: [...new Set(bases.map(({ url }) => url))],
        requested,
      },
    };
  };
}

/** Throws a {@link BuilderRequired} for a base image with the types of Docker, which have none for zstd: a builder makes it one of OCI. */
function requireOci(images: readonly (Document | undefined)[]): void {
  if (images.some(image => image && familyOf(manifestType(image)) === 'docker')) {
    throw new BuilderRequired(["'buildCompression.mode' zstd with a base image of Docker's types"]);
  }
}

const notLazyText =
  'The base image is not in the eStargz form: containerd fetches all layers above its first layer of another form, too. Only a base image in the eStargz form makes the image lazy\n';

/** Returns true if a lazy client can read all layers of an image without fetching them. */
function isLazy(image: Document): boolean {
  const manifest = parseManifest(image);
  return (
    manifest.kind === 'manifest' &&
    manifest.layers.every(({ annotations }) => estargzAnnotationsIn(annotations) !== undefined)
  );
}

interface Made extends Omit<PlatformSolution, 'wheels'> {
  readonly wheels: readonly LayeredWheel[];
  readonly architecture: string;
  /** The PATH of the base image. */
  readonly basePath: string;
  readonly layers: readonly InjectedLayer[];
  readonly variables: Readonly<Record<string, string>>;
}

/** Returns what documents say about a wheel. Of one that was built, they name what anybody can fetch. */
function billedWheel({ wheel, metadata, sums: ownSums }: LayeredWheel): BilledWheel {
  const { name, version, source, commit } = wheel;
  const { fileName, url } = source ?? wheel;
  const sums = source ? { sha256: source.sha256, size: source.size ?? 0 } : ownSums;
  const origin = commit
    ? { fileName: undefined, url: commitAddress(commit), sha256: undefined, size: undefined }
    : { fileName, url, ...sums };
  const { licenseExpression, license, licenseClassifiers, summary, homePage } = metadata;
  return {
    name,
    version,
    ...origin,
    license: licenseExpression ?? license ?? licenseClassifiers[0],
    summary,
    home: homePage,
    requiresPython: metadata.requiresPython,
    requires: metadata.requiresDist,
  };
}

/** Returns packages in the order in which they are installed. */
export function inLinkOrder(
  native: NativeOrigin['native'],
  packages: readonly CondaPackage[],
  scripted: readonly LayeredPackage[],
): readonly LayeredPackage[] {
  const places = new Map(inOrder(native, packages).map(({ url }, place) => [url, place]));
  const placeOf = ({ package: { url } }: LayeredPackage) => places.get(url) ?? 0;
  return scripted.toSorted((one, other) => placeOf(one) - placeOf(other));
}

/** Throws {@link BuilderRequired} for packages with scripts that run when they are installed. */
export function requireNoScripts(
  packages: readonly LayeredPackage[],
  solution?: readonly SolvedPlatform[],
): void {
  const names = packages
    .filter(({ linkScripts }) => linkScripts.length > 0)
    .map(one => one.package.name);
  if (names.length === 0) return;
  throw new BuilderRequired(
    names.map(name => `the link script of ${name}`),
    solution,
  );
}

/** @param wanted variables of all platforms */
function changeOf(made: readonly Made[], wanted: readonly string[]): ImageChange {
  const [first] = made;
  const isSame = made.every(
    ({ variables, basePath }) =>
      basePath === first?.basePath && isDeepStrictEqual(variables, first.variables),
  );
  if (first && isSame) {
    return { layers: made.flatMap(({ layers }) => layers), env: entriesOf(first, wanted) };
  }
  // Packages of one platform may have other variables than those of another one.
  return made.reduce<ImageChange>(
    (onTopOf, one) => ({
      layers: one.layers,
      env: entriesOf(one, wanted),
      architecture: one.architecture,
      onTopOf,
    }),
    {},
  );
}

/** Returns the environment variables of an image. */
function entriesOf({ variables, basePath }: Made, wanted: readonly string[]): string[] {
  const ofPackages = Object.entries(variables).map(([name, value]) => `${name}=${value}`);
  const given = [...ofPackages, ...wanted];
  const path = lastPath(given) ?? basePath;
  return [...given, `CONDA_PREFIX=${environmentPrefix}`, `PATH=${environmentPrefix}/bin:${path}`];
}

/** Returns the last PATH of variables, as an image has it. */
function lastPath(variables: readonly string[]): string | undefined {
  const start = 'PATH=';
  return variables.findLast(variable => variable.startsWith(start))?.slice(start.length);
}

// What container programs use for an image without a PATH.
const usualPath = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

/** Returns the PATH of a base image. */
async function pathIn(
  documents: Documents,
  access: Access,
  image: Document | undefined,
): Promise<string> {
  const manifest = image && parseManifest(image);
  if (manifest?.kind !== 'manifest') return usualPath;
  const config = await documents.config(access, manifest.config);
  return environmentIn(config.bytes).get('PATH') ?? usualPath;
}

/**
 * Returns the lines of a log for the work on an environment, in the form in which BuildKit prints the progress of its
 * downloads: `download bwa-0.7.17-0 4.19MB / 12.50MB 0.5s`.
 */
export function progressLines({ parts, ...all }: LayerProgress): string[] {
  const { done, total, fetched, fetchedTotal } = all;
  return [
    ...parts.map(partLine),
    statusText({
      id: `${done} / ${total} packages`,
      current: fetched,
      total: fetchedTotal,
      timeMs: Date.now(),
      startedMs: undefined,
      completedMs: undefined,
    }),
  ];
}

/** How far a part of the work is. */
interface Part extends Omit<PartProgress, 'kind'> {
  readonly kind: PartProgress['kind'] | 'repodata';
}

/** Returns the line of a part: `repodata conda-forge/linux-64 4.19MB / 41.50MB 1.0s`. */
function partLine({ kind, name, bytes, totalBytes, tookMs, isDone }: Part): string {
  const now = Date.now();
  return statusText({
    // Names come from channels.
    id: `${kind} ${name.replace(/[^\x21-\x7e]+/g, '_')}`,
    current: bytes,
    total: totalBytes,
    startedMs: now - tookMs,
    timeMs: now,
    completedMs: isDone ? now : undefined,
  });
}
