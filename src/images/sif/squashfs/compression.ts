/** Compression of the file system in a Singularity image. */
export interface Compression {
  readonly mode: 'gzip' | 'zstd';
  readonly level: number;
}

/**
 * Every version of Singularity reads gzip. Level 9 takes up to twice the processor time and more, and saves about one percent of
 * programs and libraries, though more of some files. Level 1 saves a third of the time, and takes 3 to 9 % more bytes.
 */
export const usualCompression: Compression = { mode: 'gzip', level: 6 };

/** The highest level, as mksquashfs has it, and the default level. */
export const compressionLevels = {
  gzip: { most: 9, usual: usualCompression.level },
  zstd: { most: 22, usual: 9 },
} as const;
