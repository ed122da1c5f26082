import { type JsonObject, memberName } from '../../oci/json.ts';
import { type ConfigTable, type ContainerConfig, rowsOf } from './container-config.ts';
import { mergeEnv } from './env.ts';

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
export function changeRuntime(base: JsonObject, config: ContainerConfig): JsonObject {
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
