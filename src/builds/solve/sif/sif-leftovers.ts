import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';

/**
 * The directory of a build has the build's id as its name. Other directories, such as those at the root of a separate
 * disk, are not the service's.
 */
const buildId = /^[0-9a-f]{32}_\d+$/;

/** Removes the unfinished Singularity images that another process left. */
export async function removeSifLeftovers(directory: string): Promise<void> {
  const names = await readdir(directory).catch(error => {
    if (error.code === 'ENOENT') return [];
    throw error;
  });
  for (const name of names.filter(name => buildId.test(name))) {
    await rm(join(directory, name), { recursive: true, force: true });
  }
}
