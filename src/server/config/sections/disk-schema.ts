import { z } from 'zod';
import { duration, size } from '../units.ts';

const leastListingBytes = 16 * 1024 ** 2;

/** Free space that the server leaves on the disk of its state. */
export const disk = z.strictObject({
  minFreeBytes: size
    .prefault('1 GiB')
    .describe(
      'Free space to keep on the disk of `data`, at most 5 % of the disk. Below it, pushes, requests and builds are refused (507), pulls continue, and `/readyz` answers 503. `0`: no reserve',
    ),
  listingBytes: size
    .prefault('512 MiB')
    .refine(bytes => bytes >= leastListingBytes, 'must be 16 MiB or more')
    .describe(
      'Lists of the files in layers that somebody looked into, about 1 MB for 50,000 files. The least recently used are removed, and an image whose lists take more than half of it is not compared',
    ),
});

/** When unreferenced content is removed. */
export const sweep = z.strictObject({
  interval: duration
    .prefault('6h')
    .describe('Interval between two removals of unreferenced content'),
  grace: duration
    .prefault('24h')
    .describe('Minimum time that content is kept after its last use, so that pushes can finish'),
});
