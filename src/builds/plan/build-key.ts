import { createHash } from 'node:crypto';
import { Fault } from '../../foundation/fault.ts';
import { type ConfigTable, rowsOf } from '../../images/augment/container-config.ts';
import type { ImageChange, InjectedLayer } from '../../images/augment/index.ts';
import { parseReference } from '../../oci/naming.ts';
import type { Recipe } from '../recipe/recipe-kind.ts';
import { type BuildSource, sourceKindOf } from '../recipe/recipe-kinds.ts';
import {
  type CanonicalField,
  canonicalDocument,
  list,
  sortedOnce,
  text,
} from '../recipe/text/canonical-document.ts';
import { defaultStrategy, type NameStrategy } from './image-name.ts';

/** Everything that changes the result of a build or its target. */
export interface BuildIdentity {
  readonly source: BuildSource;
  /** Default: `buildkit`. */
  readonly maker?: Recipe['maker'] | undefined;
  /** Platforms in the form `os/architecture`; their order does not matter. */
  readonly platforms: readonly string[];
  /** Target repository, without tag. */
  readonly repository: string;
  readonly nameStrategy?: NameStrategy | undefined;
  readonly format?: 'docker' | 'sif' | undefined;
  /** Digest of the build context that came with the request. */
  readonly contextDigest?: string | undefined;
  /** The config and layers baked into the image (freeze). */
  readonly frozenConfig?: ImageChange | undefined;
  /** All other options that change the result, by name; a name contains no `=`. */
  readonly options?: Readonly<Record<string, string>> | undefined;
}

/** First line of the hashed text. A change of the format changes the number. */
const version = 'sluice-build-1';

// 128 bits. Finding a second recipe for a given key takes 2^128 tries, and finding two recipes with the same key takes
// 2^64. With 16 digits those numbers would be 2^64 and 2^32: minutes on a laptop.
const keyLength = 32;

/**
 * Returns the key of a build: 32 lower-case hex digits, the start of the SHA-256 of {@link canonicalText}. Two builds
 * have the same key if and only if they are to make the same image in the same place. Throws a `Fault` for texts that
 * are not well-formed Unicode, and {@link OciSyntaxError} for an invalid repository. The algorithm is published in
 * docs/build-key.md.
 */
export function buildKey(identity: BuildIdentity): string {
  return createHash('sha256').update(canonicalText(identity)).digest('hex').slice(0, keyLength);
}

/**
 * Returns the text whose SHA-256 is the key: every field has its name and length, so that fields cannot be confused.
 */
export function canonicalText(identity: BuildIdentity): string {
  const { platforms, format = 'docker', nameStrategy = defaultStrategy, contextDigest } = identity;
  const { registry, repository } = parseReference(identity.repository);
  const document = canonicalDocument(version, [
    text('repository', `${registry}/${repository}`),
    list('platform', sortedOnce(platforms)),
    text('format', format),
    text('nameStrategy', nameStrategy),
    ...(contextDigest === undefined ? [] : [text('context', contextDigest)]),
    ...sourceKindOf(identity.source).keyFields(identity.source, identity.maker ?? 'buildkit'),
    ...frozenFields(identity.frozenConfig ?? {}),
    ...optionFields(identity.options ?? {}),
  ]);
  if (document.isWellFormed()) return document;
  throw new Fault(
    'bad-request',
    'The request contains text that is not well-formed Unicode: send its texts as UTF-8',
    {
      phase: 'request',
    },
  );
}

/** The fields of a config, in the order of docs/build-key.md. */
const configKeys: ConfigTable<CanonicalField> = {
  entrypoint: words => list('entrypoint', words),
  cmd: words => list('cmd', words),
  env: entries => list('env', entries),
  workingDir: path => text('workingDir', path),
};

function frozenFields(change: ImageChange): CanonicalField[] {
  const { layers = [], onTopOf } = change;
  return [
    ...(onTopOf === undefined
      ? []
      : [text('onTopOf', canonicalDocument('change', frozenFields(onTopOf)))]),
    ...rowsOf(change, configKeys),
    ...(layers.length === 0 ? [] : [list('layer', layers.map(layerText))]),
  ];
}

function layerText({ gzipDigest, architecture, from }: InjectedLayer): string {
  return [gzipDigest, architecture, from && `of ${from}`].filter(Boolean).join(' ');
}

function optionFields(options: Readonly<Record<string, string>>): CanonicalField[] {
  const entries = Object.entries(options).map(([name, value]) => {
    if (name.includes('=')) throw new RangeError(`The option '${name}' has '=' in its name`);
    return `${name}=${value}`;
  });
  return entries.length === 0 ? [] : [list('option', sortedOnce(entries))];
}
