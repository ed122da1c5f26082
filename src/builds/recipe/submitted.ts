import { type CanonicalField, text } from './text/canonical-document.ts';
import { base64Text } from './text/text-field.ts';

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
  /** As existing clients send them; `condaOpts` counts before them. */
  readonly pixiOpts?: Omit<SubmittedCondaOptions, 'mambaImage'> | undefined;
  readonly cranOpts?: SubmittedCranOptions | undefined;
  /** Not in the specification. */
  readonly pipOpts?: SubmittedPipOptions | undefined;
}

export interface SubmittedCondaOptions {
  readonly mambaImage?: string | undefined;
  /** The image that receives the environment. Not in the specification. */
  readonly baseImage?: string | undefined;
  /** Separated by blanks. */
  readonly basePackages?: string | undefined;
  readonly commands?: readonly string[] | undefined;
}

/** The optional parts of a `pyproject.toml` or of its lock file. */
export interface SubmittedPipOptions {
  readonly extras?: readonly string[] | undefined;
  readonly groups?: readonly string[] | undefined;
}

/** Options of R packages. Source: reference service, `cranOpts`. */
export interface SubmittedCranOptions {
  readonly rImage?: string | undefined;
  /** Debian packages, separated by blanks. */
  readonly basePackages?: string | undefined;
  readonly commands?: readonly string[] | undefined;
}

/** A file of the caller, and the Conda file that may come with it. */
export interface FileSource {
  readonly text: string;
  /** Text of `conda.yml` in the build context. */
  readonly condaFile?: string | undefined;
}

/** Path of the Conda file in the build context. */
const condaFileName = 'conda.yml';

/** Returns the Conda file of a request, decoded; an empty object for a request without one. */
export function condaFileIn({ condaFile }: SubmittedBuild): Pick<FileSource, 'condaFile'> {
  return condaFile === undefined ? {} : { condaFile: base64Text('condaFile', condaFile) };
}

/** Returns the files that are added to the caller's build context. */
export function filesOf({ condaFile }: FileSource): ReadonlyMap<string, string> {
  return new Map(condaFile === undefined ? [] : [[condaFileName, condaFile]]);
}

/** Returns the fields of the build key: both files unchanged. */
export function fileKeyFields(source: FileSource): CanonicalField[] {
  const { condaFile } = source;
  return [
    text('containerFile', source.text),
    ...(condaFile === undefined ? [] : [text('condaFile', condaFile)]),
  ];
}
