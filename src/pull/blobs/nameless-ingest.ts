import { randomUUID } from 'node:crypto';
import { mkdir, open, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Logger } from '../../foundation/telemetry/index.ts';
import { rememberSuccess } from '../../foundation/work.ts';
import { type ContentStore, type SlabPool, startIngest } from '../../storage/content/index.ts';
import { createDiskSpace } from '../../storage/directory/index.ts';

/**
 * Takes in bytes that are read while they arrive, and never become content. Their file has no name, so that nothing of it
 * is left, however the process ends.
 *
 * @param reserveBytes bytes of the disk to keep free
 */
export function createNamelessIngest(
  directory: string,
  reserveBytes: number,
  slabs: SlabPool,
  log: Logger,
): Pick<ContentStore, 'ingest'> {
  const space = rememberSuccess(async () => {
    await mkdir(directory, { recursive: true, mode: 0o700 });
    return createDiskSpace(directory, reserveBytes, log);
  });
  const never = async (): Promise<never> => {
    throw new Error('the bytes of this file never become content');
  };
  return {
    async ingest(algorithm = 'sha256', expected = 0, isReserved = true) {
      const free = await space.get();
      await free.look();
      const promise = free.promise(expected, isReserved);
      try {
        const name = join(directory, randomUUID());
        const file = await open(name, 'wx', 0o600);
        await rm(name);
        // Source: proc(5), a file that is open can be opened again there.
        const path = `/proc/self/fd/${file.fd}`;
        const home = { pathOf: () => path, enter: never, adopt: never, require: never };
        return startIngest({ path, file }, algorithm, {
          ...home,
          space: promise,
          slabs,
          sync: never,
          keep: never,
        });
      } catch (error) {
        promise.end();
        throw error;
      }
    },
  };
}
