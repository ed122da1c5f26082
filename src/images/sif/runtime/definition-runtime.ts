import {
  type ConfigField,
  type ConfigTable,
  type ContainerConfig,
  rowsOf,
} from '../../augment/container-config.ts';
import { exportLines } from './environment.ts';

/** The parts of a definition file that specify how an image runs and is described. */
export interface DefinitionRuntime {
  /** The definition file. */
  readonly text: string;
  /** Its headers by their names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly labels: Readonly<Record<string, string>>;
  /** Shell code that sets variables. */
  readonly environment?: string | undefined;
  /** Shell code that sets the variables of a request, after all variables of the definition. */
  readonly requestedEnvironment?: string | undefined;
  /** Complete scripts, including the first line. */
  readonly runscript?: string | undefined;
  readonly startscript?: string | undefined;
  readonly test?: string | undefined;
  readonly help?: string | undefined;
  /** By their names. */
  readonly apps?: Readonly<Record<string, AppRuntime>>;
  /**
   * True if the definition begins with a Singularity image: the runtime data of that image applies wherever the
   * definition specifies nothing else.
   */
  readonly isOnSif?: true;
}

/** The runtime data of one app of an image. */
export interface AppRuntime {
  readonly labels: Readonly<Record<string, string>>;
  readonly environment?: string | undefined;
  readonly runscript?: string | undefined;
  readonly startscript?: string | undefined;
  readonly test?: string | undefined;
  readonly help?: string | undefined;
}

/**
 * Returns the definition of an image that is converted unchanged, as `apptainer pull docker://` writes it.
 *
 * @param name the image name that was requested
 * @param digest the digest that the name resolved to, if it has a tag
 */
export function imageDefinition(name: string, digest?: string): DefinitionRuntime {
  const base = 'org.opencontainers.image.base';
  return {
    text: `bootstrap: docker\nfrom: ${name}\n\n`,
    headers: { bootstrap: 'docker', from: name },
    labels: digest === undefined ? {} : { [`${base}.name`]: name, [`${base}.digest`]: digest },
  };
}

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
