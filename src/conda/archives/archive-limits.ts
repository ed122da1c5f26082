/** How large an archive of a package may be, unpacked. */
export interface ArchiveLimits {
  /** Bytes of all files together. */
  readonly unpackedBytes: number;
  /** Bytes of all files together for each byte of the archive. Applies above {@link freeBytes}. */
  readonly ratio: number;
  /** Unpacked bytes to which {@link ratio} does not apply. */
  readonly freeBytes: number;
  /** Files, links and directories; also the directories that are made for them. */
  readonly entries: number;
  /** Bytes of a list of files, such as `info/paths.json`. */
  readonly documentBytes: number;
  /** Occurrences of the prefix in one file. */
  readonly occurrences: number;
}

const mebibyte = 1024 * 1024;

/**
 * The largest packages of the public channels have a tenth of each, and two thirds of the entries. With more entries, a server
 * needs more than 300 MiB.
 */
export const archiveLimits: ArchiveLimits = {
  unpackedBytes: 32 * 1024 * mebibyte,
  ratio: 200,
  freeBytes: 1024 * mebibyte,
  entries: 75_000,
  documentBytes: 64 * mebibyte,
  occurrences: 1_000_000,
};

/** Base 2 logarithm of the largest zstd window: what level 22, the highest, requires. */
export const maxWindowLog = 27;

/** Files, links and directories of an archive that is unpacked beside others: they take about 600 bytes each. */
export const usualEntries = 25_000;
