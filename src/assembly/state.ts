import { existsSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { removeSifLeftovers } from '../build/sif-leftovers.ts';
import { openContentStore } from '../content/content-store.ts';
import { Fault } from '../fault.ts';
import { createBuildStore } from '../store/builds.ts';
import { createCachedBlobStore } from '../store/cached-blobs.ts';
import { lockData } from '../store/data-lock.ts';
import { openDatabase } from '../store/database.ts';
import { createFetchedLayerStore } from '../store/fetched-layers.ts';
import { createHostedStore } from '../store/hosted.ts';
import { readKeyFile } from '../store/key-file.ts';
import { createPairingStore } from '../store/pairings.ts';
import { createRequestStore } from '../store/requests.ts';
import { createSecretBox } from '../store/secret-box.ts';
import { createTokenPairStore } from '../store/token-pairs.ts';
import { createUsageStore } from '../store/usage.ts';
import type { AppDeps } from './app-deps.ts';

/** Everything that is kept, below the data directory. */
export type State = Awaited<ReturnType<typeof openState>>;

/** Opens the data directory; waits while another server uses it. */
export async function openState({ config, log }: Pick<AppDeps, 'config' | 'log'>) {
  const pathOf = (name: string) => join(config.data, name);
  await makeDirectory(config.data);
  const content = await openContentStore(pathOf('content'));
  const lock = await lockData(config.data, () =>
    log.warn('another server uses the data directory: this one waits until it has ended'),
  );
  // What was on its way in when the last process ended.
  await content.removeLeftovers(Number.POSITIVE_INFINITY);
  await removeSifLeftovers(pathOf('sif'));
  const database = openDatabase(pathOf('sluice.db'));
  return {
    pathOf,
    content,
    database,
    usage: createUsageStore(database),
    cachedBlobs: createCachedBlobStore(database),
    fetchedLayers: createFetchedLayerStore(database),
    hosted: createHostedStore(database),
    requests: createRequestStore(database),
    builds: createBuildStore(database),
    tokenPairs: createTokenPairStore(database),
    pairings: createPairingStore(database),
    secrets: createSecretBox(readKeyFile(pathOf('secrets.key'))),
    signingKey: readKeyFile(pathOf('registry-token.key')),
    close() {
      database.close();
      lock[Symbol.dispose]();
    },
  };
}

/**
 * Makes the data directory, for its owner alone; one that is there is left as it is. Node's own recursive
 * way never ends where the system makes no directories, as below /proc.
 */
async function makeDirectory(path: string): Promise<void> {
  try {
    await mkdir(path, { mode: 0o700 });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EEXIST') return;
    const parent = dirname(path);
    if (code !== 'ENOENT' || existsSync(parent)) {
      throw new Fault(
        'internal',
        `The data directory ${path} cannot be made (${code}): name another one with SLUICE_DATA`,
        { phase: 'store', cause: error },
      );
    }
    await makeDirectory(parent);
    await mkdir(path, { mode: 0o700 });
  }
}
