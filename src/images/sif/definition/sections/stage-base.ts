import { parseReference } from '../../../../oci/reference.ts';
import { OciSyntaxError } from '../../../../oci/syntax-error.ts';
import { refuseLine } from '../definition-error.ts';
import type { Header } from '../parser.ts';

/** The base of a stage. */
export interface StageBase {
  /** Name of an image, or `scratch`. */
  readonly image: string;
  /** Packages to install first. */
  readonly packages: readonly string[];
  /** True if the name refers to a Singularity image in a registry. */
  readonly isSif?: true;
  /** Warnings for the caller about the choice of the base. */
  readonly warning?: string;
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
