import { type JsonObject, memberName } from '../../oci/json.ts';
import { mergeEnv } from './env.ts';
import type { ImageChange } from './image-change.ts';

/**
 * The variables that hand the image's own entrypoint to the injected one: as JSON array text, and for
 * entrypoints that were written for Wave in its form, where a single word stands as it is.
 */
function entryChain(own: readonly string[]): string[] {
  const list = JSON.stringify(own);
  const [word = '', ...others] = own;
  return [`SLUICE_ENTRY_CHAIN=${list}`, `WAVE_ENTRY_CHAIN=${others.length === 0 ? word : list}`];
}

/** True when the change is for how the container is run, and not only for what is in it. */
export function touchesRuntime({ entrypoint, cmd, workingDir, env = [] }: ImageChange): boolean {
  return [entrypoint, cmd, workingDir].some(part => part !== undefined) || env.length > 0;
}

/** The `config` member of an image config with the change merged in. */
export function changeRuntime(base: JsonObject, change: ImageChange): JsonObject {
  const changed: JsonObject = { ...base };
  const at = (member: string) => memberName(base, member);
  const env = [...(change.env ?? [])];
  if (change.entrypoint !== undefined) {
    const own = asStrings(base[at('Entrypoint')]);
    // An image that starts with the given entrypoint already was made by an earlier change: it would
    // be told to call itself, and lose the chain that it has.
    const isReplaced = JSON.stringify(own) !== JSON.stringify(change.entrypoint);
    if (own.length > 0 && isReplaced) env.push(...entryChain(own));
    changed[at('Entrypoint')] = [...change.entrypoint];
  }
  if (change.cmd !== undefined) changed[at('Cmd')] = [...change.cmd];
  if (change.workingDir !== undefined) changed[at('WorkingDir')] = change.workingDir;
  if (env.length > 0) changed[at('Env')] = mergeEnv(asStrings(base[at('Env')]), env);
  return changed;
}

function asStrings(value: unknown): string[] {
  if (typeof value === 'string') return [value];
  return Array.isArray(value) ? value.filter(item => typeof item === 'string') : [];
}
