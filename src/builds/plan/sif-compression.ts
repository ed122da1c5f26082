import { type Compression, compressionLevels } from '../../images/sif/squashfs/compression.ts';
import { refuse } from '../recipe/text/refuse.ts';

/** Compression of an image, as a request specifies it. */
export interface SubmittedCompression {
  readonly mode?: string | undefined;
  readonly level?: number | undefined;
}

/**
 * Returns the compression for the file system of a Singularity image; undefined where the request does not specify it.
 * Throws a `Fault` (400) for a compression that Singularity images do not support, and for images of another format.
 */
export function readSifCompression(
  submitted: SubmittedCompression | undefined,
  format: 'docker' | 'sif' | undefined,
): Compression | undefined {
  if (submitted === undefined) return undefined;
  if (format !== 'sif') {
    refuse("'buildCompression' is for Singularity images: set 'format' to sif, or leave it out");
  }
  const { mode = 'gzip', level } = submitted;
  if (mode !== 'gzip' && mode !== 'zstd') {
    refuse("'buildCompression.mode' can be gzip or zstd for a Singularity image");
  }
  const { most, usual } = compressionLevels[mode];
  if (level !== undefined && !(Number.isInteger(level) && level >= 1 && level <= most)) {
    refuse(`'buildCompression.level' can be 1 to ${most} for ${mode}`);
  }
  return { mode, level: level ?? usual };
}

/** Returns the compression in the key of a build: none for the default one. */
export function compressionOption(compression: Compression | undefined): Record<string, string> {
  if (!compression) return {};
  const { mode, level } = compression;
  const isUsual = mode === 'gzip' && level === compressionLevels.gzip.usual;
  return isUsual ? {} : { compression: `${mode}:${level}` };
}
