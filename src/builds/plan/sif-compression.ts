import { type Compression, compressionLevels } from '../../images/sif/squashfs/compression.ts';
import { refuse } from '../recipe/text/refuse.ts';

/** How an image is to be compressed, as a request says it. */
export interface SubmittedCompression {
  readonly mode?: string | undefined;
  readonly level?: number | undefined;
}

/**
 * What the file system of a Singularity image is to be compressed with; undefined where the request does not say.
 * Throws a `Fault` (400) for what Singularity images cannot have, and for images of another format.
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

/** The compression in the key of a build: none where it is the usual one. */
export function compressionOption(compression: Compression | undefined): Record<string, string> {
  if (!compression) return {};
  const { mode, level } = compression;
  const isUsual = mode === 'gzip' && level === compressionLevels.gzip.usual;
  return isUsual ? {} : { compression: `${mode}:${level}` };
}
