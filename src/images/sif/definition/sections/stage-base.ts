import { OciSyntaxError, parseReference } from '../../../../oci/naming.ts';
import { refuseLine, shownText } from '../definition-error.ts';
import type { DefinitionStage, Header } from '../parser.ts';

/** The base of a stage. */
export interface StageBase {
  /** Name of an image, or `scratch`; the path of a SIF file in the build context. */
  readonly image: string;
  /** Packages to install first. */
  readonly packages: readonly string[];
  /** The program that installs them. Default: `apt`. */
  readonly manager?: 'apt' | 'rpm' | 'zypper';
  /** Where the Singularity image of this name is; absent for a container image. */
  readonly sif?: 'registry' | 'context';
  /** Warnings for the caller about the choice of the base. */
  readonly warning?: string;
}

/** What a base depends on, apart from its stage. */
export interface BaseOptions {
  /** A registry that callers can push to. */
  readonly ownHost: string;
  /** True if the request has a build context. */
  readonly hasContext: boolean;
}

/** Returns the name of an image. Throws a `Fault` with the line of its header for an invalid name. */
export function checkedImage(image: string, { line }: Header): string {
  try {
    parseReference(image);
    return image;
  } catch (error) {
    if (error instanceof OciSyntaxError) refuseLine(line, error.message);
    throw error;
  }
}

/** Returns a distribution that is built from its Docker image, with a warning. */
export function insteadOf(what: string, { line }: Header, image: string): StageBase {
  return {
    image: checkedImage(image, { value: image, line }),
    packages: [],
    warning: `The definition file, line ${line}: ${what} is built from the Docker image of the same distribution, ${image}`,
  };
}

/** Returns the packages of `Include:`. Throws a `Fault` with the line for a name of another form. */
export function includedPackages(
  headers: DefinitionStage['headers'],
  form: RegExp,
): readonly string[] {
  const include = headers.get('include');
  if (include === undefined) return [];
  const packages = include.value.split(/[\s,]+/).filter(name => name !== '');
  for (const name of packages) {
    if (!form.test(name)) {
      refuseLine(include.line, `${shownText(name)} is not the name of a package`);
    }
  }
  return packages;
}
