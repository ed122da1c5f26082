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
import { envName, mergeEnv } from './env.ts';
import type { InjectedLayer } from './image-change.ts';

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
    ...layers.map(layer => ({
      created: layerCreated,
      created_by: `sluice: injected layer ${layer.gzipDigest}`,
    })),
  ];
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
