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
  /** True where it begins with a Singularity image: how that one is run holds, as far as nothing else is said. */
  readonly isOnSif?: true;
}

/** What a definition file says about one of the apps of an image. */
export interface AppRuntime {
  readonly labels: Readonly<Record<string, string>>;
  readonly environment?: string | undefined;
  readonly runscript?: string | undefined;
  readonly startscript?: string | undefined;
  readonly test?: string | undefined;
  readonly help?: string | undefined;
}

/**
 * The definition of an image that is converted as it is, which `apptainer pull docker://` would write.
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
