import { exportLines } from '../runtime/environment.ts';
import type { DefinitionRuntime } from './definition-runtime.ts';

/** How an image is to be run; undefined for what stays. */
export interface RunChange {
  readonly entrypoint?: readonly string[] | undefined;
  readonly cmd?: readonly string[] | undefined;
  /** `NAME=value` each. */
  readonly env?: readonly string[] | undefined;
}

/**
 * A definition whose image is run as the change says, which is in the image config already: what the
 * definition says for itself would come before that.
 */
export function changeDefinition(
  definition: DefinitionRuntime,
  { entrypoint, cmd, env = [] }: RunChange,
): DefinitionRuntime {
  const isStarted = entrypoint !== undefined || cmd !== undefined;
  return {
    ...definition,
    ...(isStarted ? { runscript: undefined } : {}),
    ...(env.length > 0 ? { requestedEnvironment: exportLines(env) } : {}),
  };
}
