import type { Digest } from '../../oci/digest.ts';
import {
  asObject,
  type JsonObject,
  memberName,
  parseJson,
  parseLossless,
  writeJson,
} from '../../oci/index.ts';
import { goArchitecture, OciSyntaxError } from '../../oci/naming.ts';
import {
  type ConfigTable,
  type ContainerConfig,
  changesConfig,
  rowsOf,
} from './container-config.ts';

// The date is fixed: the same change must give the same digest on every replica.
const layerCreated = '1970-01-01T00:00:00Z';

/** Returns the architecture of an image config, in Go's spelling; undefined when the config has none. */
export function architectureOf(config: Buffer): string | undefined {
  const members = parseJson(config, 'config');
  const architecture = members[memberName(members, 'architecture')];
  return typeof architecture === 'string' && architecture !== ''
    ? goArchitecture(architecture)
    : undefined;
}

/** Returns the environment variables of an image config by name. */
export function environmentIn(config: Buffer): ReadonlyMap<string, string> {
  const members = parseJson(config, 'config');
  const runtime = asObject(members[memberName(members, 'config')]) ?? {};
  const entries = asList(runtime[memberName(runtime, 'Env')], 'Env');
  return new Map(
    entries
      .filter(entry => typeof entry === 'string')
      .map(entry => [envName(entry), entry.slice(envName(entry).length + 1)]),
  );
}

/** Returns the `ONBUILD` triggers of an image config: instructions of a Dockerfile. */
export function triggersIn(config: Buffer): readonly string[] {
  const members = parseJson(config, 'config');
  const runtime = asObject(members[memberName(members, 'config')]) ?? {};
  const triggers = asList(runtime[memberName(runtime, 'OnBuild')], 'OnBuild');
  return triggers.filter(trigger => typeof trigger === 'string');
}

/**
 * Returns the image config with the change merged in: entrypoint, cmd and working directory replaced when
 * given, environment merged by name, diff IDs and history appended for each layer. Members the
 * change does not touch keep their values and order.
 * Source: OCI image specification config.md; Docker's config has the same members.
 *
 * @param baseLayers number of layers in the base manifest, to keep the history in step with
 */
export function changeConfig(
  base: Buffer,
  change: ContainerConfig,
  layers: readonly InjectedLayer[],
  baseLayers: number,
): Buffer {
  const config = parseLossless(base, 'config');
  const rewrite = (member: string, changed: (value: unknown) => unknown) => {
    const name = memberName(config, member);
    config[name] = changed(config[name]);
  };
  if (changesConfig(change)) {
    rewrite('config', runtime => changeRuntime(asObject(runtime) ?? {}, change));
  }
  if (layers.length > 0) {
    rewrite('rootfs', rootfs => appendDiffIds(rootfs, layers));
    rewrite('history', history => appendHistory(history, layers, baseLayers));
  }
  return writeJson(config);
}

function appendDiffIds(rootfs: unknown, layers: readonly InjectedLayer[]): JsonObject {
  const base = asObject(rootfs) ?? { type: 'layers' };
  const name = memberName(base, 'diff_ids');
  const diffIds = asList(base[name], 'rootfs.diff_ids');
  return { ...base, [name]: [...diffIds, ...layers.map(layer => layer.tarDigest)] };
}

// Builders pair the entries that are not `empty_layer` with the layers, in order. The base may have fewer entries
// than layers, or none at all. This function fills the gap: otherwise, builders would pair the injected entries
// with layers of the base.
function appendHistory(
  history: unknown,
  layers: readonly InjectedLayer[],
  baseLayers: number,
): unknown[] {
  const entries = asList(history, 'history');
  const described = entries.filter(entry => asObject(entry)?.empty_layer !== true).length;
  const missing = Math.max(0, baseLayers - described);
  return [
    ...entries,
    ...Array.from({ length: missing }, () => ({ created: layerCreated })),
    ...layers.map(layer => ({ created: layerCreated, created_by: makerOf(layer) })),
  ];
}

function makerOf({ gzipDigest, from, holds }: InjectedLayer): string {
  if (holds !== undefined) return holds;
  return from === undefined
    ? `sluice: injected layer ${gzipDigest}`
    : `sluice: layer ${gzipDigest} of ${from}`;
}

function asList(value: unknown, member: string): unknown[] {
  const list = value ?? [];
  if (Array.isArray(list)) return list;
  throw new OciSyntaxError(
    'config',
    `The image config has a ${member} that is not a list: push the image again, built by another tool`,
  );
}

/** Describes how a field changes a member of an image config. */
interface MemberChange {
  /** Name of the member in the OCI image specification. */
  readonly member: string;
  readonly merge: (own: unknown) => unknown;
}

const memberChanges: ConfigTable<MemberChange> = {
  entrypoint: words => ({ member: 'Entrypoint', merge: () => [...words] }),
  cmd: words => ({ member: 'Cmd', merge: () => [...words] }),
  workingDir: path => ({ member: 'WorkingDir', merge: () => path }),
  env: entries => ({ member: 'Env', merge: own => mergeEnv(asStrings(own), entries) }),
};

/** Returns the `config` member of an image config with the changes merged in. */
function changeRuntime(base: JsonObject, config: ContainerConfig): JsonObject {
  const changed: JsonObject = { ...base };
  const env = [...(config.env ?? []), ...entryChain(base, config)];
  for (const { member, merge } of rowsOf({ ...config, env }, memberChanges)) {
    const name = memberName(base, member);
    changed[name] = merge(base[name]);
  }
  return changed;
}

/**
 * Returns the variables that pass the image's own entrypoint to the injected one: one as a JSON array, and one in
 * Wave's form, for entrypoints written for Wave. Wave's form writes a single word without an array. Returns none if
 * the image has no entrypoint. Also returns none if an earlier change already injected the same entrypoint:
 * otherwise, it would call itself and lose its chain.
 */
function entryChain(base: JsonObject, { entrypoint }: ContainerConfig): string[] {
  const own = asStrings(base[memberName(base, 'Entrypoint')]);
  const list = JSON.stringify(own);
  if (entrypoint === undefined || own.length === 0) return [];
  if (list === JSON.stringify(entrypoint)) return [];
  const [word = '', ...others] = own;
  return [`SLUICE_ENTRY_CHAIN=${list}`, `WAVE_ENTRY_CHAIN=${others.length === 0 ? word : list}`];
}

function asStrings(value: unknown): string[] {
  if (typeof value === 'string') return [value];
  return Array.isArray(value) ? value.filter(item => typeof item === 'string') : [];
}

/** A layer to add: a compressed tar whose digests and size were verified. */
export interface InjectedLayer {
  /** Digest of the compressed file, by which a client requests the blob. */
  readonly gzipDigest: Digest;
  /** Bytes of the compressed file. */
  readonly gzipSize: number;
  /** Digest of the tar file inside: the layer's diff ID. */
  readonly tarDigest: Digest;
  /** Only in an image of OCI: Docker's types have none for zstd. Default: gzip. */
  readonly compression?: 'zstd' | undefined;
  /** When set, only images of this architecture get the layer. */
  readonly architecture?: string;
  /** Name and digest of the included image that it is a layer of. */
  readonly from?: string;
  /** Annotations of its descriptor, by which lazy clients read it. */
  readonly annotations?: Readonly<Record<string, string>>;
  /** What the history of the image says of it, such as `conda: samtools 1.20 (bioconda)`. */
  readonly holds?: string;
}

/** Changes to a config, and layers to add: either as a client describes them, or verified. */
export interface LayeredConfig<Layer> extends ContainerConfig {
  readonly layers?: readonly Layer[] | undefined;
}

/** Changes that a container request makes to an image. */
export interface ImageChange extends LayeredConfig<InjectedLayer> {
  /** The change to make first, when the image was changed before. */
  readonly onTopOf?: ImageChange;
  /** When set, only images of this architecture get the change. */
  readonly architecture?: string;
  /** Name of the base, for the annotations of the changed image. Requests of earlier versions have none. */
  readonly baseName?: string;
}

/** Returns the change with the name of the base that it is made to, unless it is made to a changed image. */
export function ofBase(change: ImageChange, baseName: string): ImageChange {
  return isUnchanged(change) || change.onTopOf ? change : { ...change, baseName };
}

/** Returns the changes in the order in which they apply. */
export function changesIn({ onTopOf, ...change }: ImageChange): readonly ImageChange[] {
  return [...(onTopOf ? changesIn(onTopOf) : []), change];
}

/** Returns the layers of a change and of those below it, the lowest first. */
export function layersIn(change: ImageChange): readonly InjectedLayer[] {
  return changesIn(change).flatMap(({ layers }) => layers ?? []);
}

/** True when the image is served unchanged. */
export function isUnchanged(change: ImageChange): boolean {
  return changesIn(change).every(
    one => !changesConfig(one) && (one.layers === undefined || one.layers.length === 0),
  );
}

/**
 * Returns the name in `NAME=value`; the whole text without `=`. A `=` at the beginning belongs to the
 * name, as in the `=C:=C:\dir` that Windows keeps: such entries must not all be one variable.
 */
export function envName(entry: string): string {
  const equals = entry.indexOf('=', 1);
  return equals < 0 ? entry : entry.slice(0, equals);
}

/**
 * Returns the base environment with the given entries merged by name: an existing variable is replaced in its
 * place, a new one is appended. Of several entries with one name the last wins; a base that names a
 * variable twice keeps one, as the runtimes do.
 */
export function mergeEnv(base: readonly string[], given: readonly string[]): string[] {
  const merged = new Map<string, string>();
  for (const entry of [...base, ...given]) merged.set(envName(entry), entry);
  return [...merged.values()];
}
