/** What a definition file says about how an image is run and described. */
export interface DefinitionRuntime {
  /** The definition file. */
  readonly text: string;
  /** Its headers by their names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly labels: Readonly<Record<string, string>>;
  /** Shell code that sets variables. */
  readonly environment?: string | undefined;
  /** The same of a request, which comes after all that the definition sets. */
  readonly requestedEnvironment?: string | undefined;
  /** Whole scripts, first line and all. */
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
 * @param name the image as it was asked for
 * @param digest what that stood for, where it has a tag
 */
export function imageDefinition(name: string, digest?: string): DefinitionRuntime {
  const base = 'org.opencontainers.image.base';
  return {
    text: `bootstrap: docker\nfrom: ${name}\n\n`,
    headers: { bootstrap: 'docker', from: name },
    labels: digest === undefined ? {} : { [`${base}.name`]: name, [`${base}.digest`]: digest },
  };
}
