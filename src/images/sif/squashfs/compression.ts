/** What the file system of a Singularity image is compressed with. */
export interface Compression {
  readonly mode: 'gzip' | 'zstd';
  readonly level: number;
}

/** Every version of Singularity can read gzip. Its level 9 takes three times as long, for half a percent. */
export const usualCompression: Compression = { mode: 'gzip', level: 6 };

/** Levels that mksquashfs knows, and the one to take unless told. */
export const compressionLevels = {
  gzip: { most: 9, usual: usualCompression.level },
  zstd: { most: 22, usual: 9 },
} as const;
