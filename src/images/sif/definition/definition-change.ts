import {
  type ConfigField,
  type ConfigTable,
  type ContainerConfig,
  rowsOf,
} from '../../augment/container-config.ts';
import { exportLines } from '../runtime/environment.ts';
import type { DefinitionRuntime } from './definition-runtime.ts';

/** The effect of a field of a request on a Singularity image. */
type Effect =
  | { readonly definition: Partial<DefinitionRuntime> }
  /** What to do instead, where the programs that run these images ignore the field. */
  | { readonly ignored: ConfigField; readonly advice: string };

// The image config has the entrypoint and the command: a runscript of the definition would take precedence.
const withoutRunscript: Effect = { definition: { runscript: undefined } };

const effects: ConfigTable<Effect> = {
  entrypoint: () => withoutRunscript,
  cmd: () => withoutRunscript,
  workingDir: () => ({ ignored: 'workingDir', advice: 'run them with --pwd' }),
  env: entries => ({ definition: { requestedEnvironment: exportLines(entries) } }),
};

/** Returns the definition of an image whose config has the changes already. */
export function changeDefinition(
  definition: DefinitionRuntime,
  config: ContainerConfig,
): DefinitionRuntime {
  const changes = rowsOf(config, effects).map(effect =>
    'definition' in effect ? effect.definition : {},
  );
  return Object.assign({}, definition, ...changes);
}

/** Returns the fields that have no effect when a Singularity image runs, each with what to do instead. */
export function ignoredInSif(
  config: ContainerConfig,
): readonly { readonly field: ConfigField; readonly advice: string }[] {
  return rowsOf(config, effects).flatMap(effect =>
    'ignored' in effect ? [{ field: effect.ignored, advice: effect.advice }] : [],
  );
}
