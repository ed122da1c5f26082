/** Compression of the file system in a Singularity image. */
export interface Compression {
  readonly mode: 'gzip' | 'zstd';
  readonly level: number;
}

/** Every version of Singularity reads gzip. Level 9 takes three times as long as level 6 and saves half a percent. */
export const usualCompression: Compression = { mode: 'gzip', level: 6 };

/** Highest level that mksquashfs accepts, and the default level. */
export const compressionLevels = {
  gzip: { most: 9, usual: usualCompression.level },
  zstd: { most: 22, usual: 9 },
} as const;
