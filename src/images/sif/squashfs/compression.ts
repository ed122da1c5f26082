/** Compression of the file system in a Singularity image. */
export interface Compression {
  readonly mode: 'gzip' | 'zstd';
  readonly level: number;
}

/** Every version of Singularity reads gzip. A higher level takes longer and saves about one percent. */
export const usualCompression: Compression = { mode: 'gzip', level: 6 };

/** The highest level, as mksquashfs has it, and the default level. */
export const compressionLevels = {
  gzip: { most: 9, usual: usualCompression.level },
  zstd: { most: 22, usual: 9 },
} as const;
