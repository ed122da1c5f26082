import { parseReference } from '../../../../oci/reference.ts';
import { OciSyntaxError } from '../../../../oci/syntax-error.ts';
import { refuseLine } from '../definition-error.ts';
import type { Header } from '../parser.ts';

/** What a stage begins with. */
export interface StageBase {
  /** Name of an image, or `scratch`. */
  readonly image: string;
  /** Packages that are installed before anything else. */
  readonly packages: readonly string[];
  /** True where the name is that of a Singularity image in a registry. */
  readonly isSif?: true;
  /** What the caller should know of the choice. */
  readonly warning?: string;
}

/** Returns the name of an image. Throws a `Fault` with the line of its header where it is not one. */
export function checkedImage(image: string, { line }: Header): string {
  try {
    parseReference(image);
    return image;
  } catch (error) {
    if (error instanceof OciSyntaxError) refuseLine(line, error.message);
    throw error;
  }
}
