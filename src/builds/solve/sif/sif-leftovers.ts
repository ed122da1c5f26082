import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';

/** A directory of one build has its id for a name; others, on a disk of its own, are somebody else's. */
const buildId = /^[0-9a-f]{32}_\d+$/;

/** Removes what another process left of the Singularity images that it was making. */
export async function removeSifLeftovers(directory: string): Promise<void> {
  const names = await readdir(directory).catch(error => {
    if (error.code === 'ENOENT') return [];
    throw error;
  });
  for (const name of names.filter(name => buildId.test(name))) {
    await rm(join(directory, name), { recursive: true, force: true });
  }
}
