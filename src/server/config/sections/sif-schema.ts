import { z } from 'zod';
import { size, timer } from '../units.ts';
import { count } from '../values.ts';

/** Settings and limits of Singularity images. */
export const sif = z.strictObject({
  mksquashfs: z
    .string()
    .min(1)
    .optional()
    .describe('Has no effect: Sluice writes squashfs file systems itself'),
  signingKey: z
    .string()
    .min(1)
    .optional()
    .describe(
      'File with a private key (PEM, Ed25519 or RSA) that signs Singularity images, for `apptainer verify --key`. Default: images are not signed',
    ),
  stallTimeout: timer.optional().describe('Has no effect, like `sif.mksquashfs`'),
  maxEntries: count
    .min(1)
    .default(5_000_000)
    .describe(
      'Maximum number of files, directories and links in an image that is converted to a Singularity image',
    ),
  maxUnpackedBytes: size
    .prefault('100 GiB')
    .describe('Maximum size of the unpacked layers of such an image'),
  maxScratchBytes: size.prefault('100 GiB').describe('Maximum disk space for one conversion'),
});
