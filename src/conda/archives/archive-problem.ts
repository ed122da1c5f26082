import { TarError } from '../../archives/index.ts';

/** A damaged or harmful archive of a package. The message completes a sentence that names the archive. */
export class ArchiveProblem extends Error {}

/** An archive takes more memory than those that are unpacked side by side. */
export class LargeArchive extends Error {}

/**
 * Returns what is wrong with an archive if the error says so: a problem, or a malformed tar file. Returns undefined for
 * every other error.
 */
export function problemOf(error: unknown): string | undefined {
  return error instanceof ArchiveProblem || error instanceof TarError ? error.message : undefined;
}

/** Formats a path of an archive for a message: short, quoted, without control characters. */
export function showPath(path: string): string {
  return JSON.stringify(path.length > 120 ? `${path.slice(0, 120)}...` : path);
}
