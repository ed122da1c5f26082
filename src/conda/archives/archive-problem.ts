import { TarError } from '../../images/sif/tar/tar-error.ts';

/** A damaged or harmful archive of a package. The message completes a sentence that names the archive. */
export class ArchiveProblem extends Error {}

/**
 * Returns what is wrong with an archive if the error says so: a problem, a malformed tar file, or compressed data that
 * cannot be decompressed. Returns undefined for every other error.
 */
export function problemOf(error: unknown): string | undefined {
  if (error instanceof ArchiveProblem || error instanceof TarError) return error.message;
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  if (code === 'ZSTD_error_frameParameter_windowTooLarge') {
    return 'requires a larger zstd window than is allowed';
  }
  if (
    code.startsWith('ZSTD_error_') ||
    code.startsWith('Z_') ||
    code === 'ERR_TRAILING_JUNK_AFTER_STREAM_END'
  ) {
    return 'has damaged compressed data';
  }
  return undefined;
}

/** Formats a path of an archive for a message: short, quoted, without control characters. */
export function showPath(path: string): string {
  return JSON.stringify(path.length > 120 ? `${path.slice(0, 120)}...` : path);
}
