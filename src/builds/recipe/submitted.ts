/** The error for a request for Spack packages. */
export const spackRetired =
  "Spack is deprecated and cannot be built: list Conda packages in 'packages' with the type CONDA, or write a Dockerfile in 'containerFile'";

/** The members of a container request that specify what to build. Source: specification 2.1 and 2.3. */
export interface SubmittedBuild {
  /** Dockerfile, base64. */
  readonly containerFile?: string | undefined;
  /** Conda environment file, base64. With `containerFile` it is a file that the Dockerfile may copy. */
  readonly condaFile?: string | undefined;
  readonly spackFile?: string | undefined;
  readonly packages?: SubmittedPackages | undefined;
}

export interface SubmittedPackages {
  readonly type?: string | undefined;
  /** Conda environment file, base64. */
  readonly environment?: string | undefined;
  readonly entries?: readonly string[] | undefined;
  readonly channels?: readonly string[] | undefined;
  readonly condaOpts?: SubmittedCondaOptions | undefined;
}

export interface SubmittedCondaOptions {
  readonly mambaImage?: string | undefined;
  /** The image that receives the environment. Not in the specification. */
  readonly baseImage?: string | undefined;
  /** Separated by blanks. */
  readonly basePackages?: string | undefined;
  readonly commands?: readonly string[] | undefined;
}
