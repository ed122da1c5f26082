import { asObject, type JsonObject, parseLossless, writeJson } from '../oci/json.ts';
import { goArchitecture } from '../oci/platform.ts';
import { OciSyntaxError } from '../oci/syntax-error.ts';
import { mergeEnv } from './env.ts';
import type { ImageChange, InjectedLayer } from './image-change.ts';

/** Names the variable that hands the image's own entrypoint to the injected one, as JSON array text. */
export const entryChainVariable = 'SLUICE_ENTRY_CHAIN';

// Two images of one change must have one digest, on every replica and for ever: no clock here.
const layerCreated = '1970-01-01T00:00:00Z';

/** The architecture that an image config names, in Go's spelling; undefined when it names none. */
export function architectureOf(config: Buffer): string | undefined {
  const { architecture } = parseLossless(config, 'config');
  return typeof architecture === 'string' && architecture !== ''
    ? goArchitecture(architecture)
    : undefined;
}

/**
 * The image config with the change merged in: entrypoint, cmd and working directory replaced when
 * given, environment merged by name, diff IDs and history appended for each layer. Members the
 * change does not touch keep their values and order.
 * Source: OCI image specification config.md; Docker's config has the same members.
 *
 * @param baseLayers number of layers in the base manifest, to keep the history in step with
 */
export function changeConfig(
  base: Buffer,
  change: ImageChange,
  layers: readonly InjectedLayer[],
  baseLayers: number,
): Buffer {
  const config = parseLossless(base, 'config');
  if (touchesRuntime(change)) {
    config.config = changeRuntime(asObject(config.config) ?? {}, change);
  }
  if (layers.length > 0) {
    config.rootfs = appendDiffIds(config.rootfs, layers);
    config.history = appendHistory(config.history, layers, baseLayers);
  }
  return writeJson(config);
}

function touchesRuntime({ entrypoint, cmd, workingDir, env = [] }: ImageChange): boolean {
  return [entrypoint, cmd, workingDir].some(part => part !== undefined) || env.length > 0;
}

function changeRuntime(runtime: JsonObject, change: ImageChange): JsonObject {
  const changed: JsonObject = { ...runtime };
  let env = change.env ?? [];
  if (change.entrypoint !== undefined) {
    const replaced = asStrings(runtime.Entrypoint);
    if (replaced.length > 0) env = [...env, `${entryChainVariable}=${JSON.stringify(replaced)}`];
    changed.Entrypoint = [...change.entrypoint];
  }
  if (change.cmd !== undefined) changed.Cmd = [...change.cmd];
  if (change.workingDir !== undefined) changed.WorkingDir = change.workingDir;
  if (env.length > 0) changed.Env = mergeEnv(asStrings(runtime.Env), env);
  return changed;
}

function appendDiffIds(rootfs: unknown, layers: readonly InjectedLayer[]): JsonObject {
  const base = asObject(rootfs) ?? { type: 'layers' };
  const diffIds = asList(base.diff_ids, 'rootfs.diff_ids');
  return { ...base, diff_ids: [...diffIds, ...layers.map(layer => layer.tarDigest)] };
}

// Builders pair the entries that are not `empty_layer` with the layers in order. Where the base has
// fewer entries than layers (it may have none at all) the gap is filled, or the injected entries
// would be taken for the base's layers.
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
  throw new OciSyntaxError('config', `The image config has a ${member} that is no list`);
}

function asStrings(value: unknown): string[] {
  if (typeof value === 'string') return [value];
  return Array.isArray(value) ? value.filter(item => typeof item === 'string') : [];
}
