// The most that a tar file may have in its headers; whatever is read from it may be made by anonymous callers. How many
// entries and bytes one may have depends on who reads it: `sif.maxEntries`, `listing-limits.ts`, `archive-checks.ts` of
// Conda packages, and `maxContextEntries`.

/** Bytes of a PAX header, a long name or a long link: the limit of Go's reader, which docker and containerd use. */
export const maxHeaderBytes = 1024 * 1024;
/** Bytes of all headers of one entry, where they are kept: a PAX header, a long name and a long link, and some more. */
export const maxBlockBytes = 4 * maxHeaderBytes;
/**
 * A header of 1 MiB has room for 175,000 records, which take as long as a thousand ordinary headers. A real one has a
 * few dozen; only the oldest format for sparse files, which tar stopped using in 2006, has two for each part.
 */
export const maxPaxRecords = 10_000;

// Up to this size, any ratio is accepted: a tar file may consist of zeros.
const anyRatioBytes = 256 * 1024 * 1024;
export const maxRatio = 200;

/** Returns true for bytes that have unpacked to more than content in use does: such a file is made to fill disks. */
export function isTooDense(packed: number, unpacked: number): boolean {
  return unpacked > anyRatioBytes && unpacked > packed * maxRatio;
}

/** Bytes of the list of parts that an archive stores before the data of a sparse file: the limit of Go's reader. */
export const maxSparseMapBytes = 1024 * 1024;
/**
 * A real map reaches 1 MiB first: GNU tar finds no part or hole shorter than 512 bytes, so the offsets soon have seven
 * digits and more, and 80,000 parts fill the map. Only a map of empty or tiny parts has more.
 */
export const maxSparseParts = 100_000;

/** The limits of Linux for extended attributes: XATTR_NAME_MAX and XATTR_SIZE_MAX. */
export const maxAttributeName = 255;
export const maxAttributeBytes = 65_536;

/** The limit of Linux for paths and targets of links, with the zero at the end: PATH_MAX. */
export const maxPathBytes = 4096;
/** The limit of Linux for the name of one file: NAME_MAX. */
export const maxNameBytes = 255;

/** Entries of a build context. No source tree has more, and this many fit in memory. */
export const maxContextEntries = 200_000;

/** Bytes of the file in an archive with one file. */
export const maxOnlyFileBytes = 4 * 1024 * 1024;
