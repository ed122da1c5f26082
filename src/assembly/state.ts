import { existsSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { removeSifLeftovers } from '../build/sif-leftovers.ts';
import { closeInTurn } from '../closing.ts';
import { SlabPool } from '../content/buffers.ts';
import { type ContentStore, openContentStore } from '../content/content-store.ts';
import { createDiskSpace } from '../content/disk-space.ts';
import { Fault } from '../fault.ts';
import { createAnonymousUseStore } from '../store/anonymous-use.ts';
import { createAuditLog } from '../store/audit-log.ts';
import { createBuildStore } from '../store/builds.ts';
import { createCachedBlobStore } from '../store/cached-blobs.ts';
import { createClockReadingStore } from '../store/clock-readings.ts';
import { lockData } from '../store/data-lock.ts';
import { openDatabase } from '../store/database.ts';
import { createFetchedLayerStore } from '../store/fetched-layers.ts';
import { createHostedStore } from '../store/hosted.ts';
import { readKeyFile } from '../store/key-file.ts';
import { createPairingStore } from '../store/pairings.ts';
import { makePrivate } from '../store/private-modes.ts';
import { createRequestStore } from '../store/requests.ts';
import { openSecretBox } from '../store/secret-keys.ts';
import { createTokenPairStore } from '../store/token-pairs.ts';
import { createUsageStore } from '../store/usage.ts';
import { requireContent, requireDatabase, requireSecretsKey } from '../store/whole-data.ts';
import { createSteadyClock } from '../upkeep/steady-clock.ts';
import type { AppDeps } from './app-deps.ts';

/** Everything that is kept, below the data directory. */
export type State = Awaited<ReturnType<typeof openState>>;

/** Opens the data directory; waits while another server uses it. */
export async function openState({ config, log }: Pick<AppDeps, 'config' | 'log'>) {
  const pathOf = (name: string) => join(config.data, name);
  await makeDirectory(config.data);
  for (const path of await makePrivate(config.data)) {
    log.warn({ path }, 'other users of the machine may read this, and its mode cannot be changed');
  }
  const lock = await lockData(config.data, () =>
    log.warn('another server uses the data directory: this one waits until it has ended'),
  );
  await requireDatabase(config.data);
  const space = await createDiskSpace(config.data, config.disk.minFreeBytes, log);
  // SQLite removes its log when it is closed.
  const wasKilled = existsSync(pathOf('sluice.db-wal'));
  let content: ContentStore | undefined;
  const database = openDatabase(pathOf('sluice.db'), {
    settleFirst: async () => content?.settle(),
    onFailedCopy: reason =>
      log.error(
        { reason },
        'the write-ahead log of the database cannot be copied into the database, and grows',
      ),
  });
  await requireContent(config.data, database);
  requireSecretsKey(config.data, database);
  const slabs = new SlabPool();
  content = await openContentStore(pathOf('content'), {
    isOwner: true,
    wasKilled,
    space,
    slabs,
    trustMs: config.scrub.trust,
    onDamaged: digest =>
      log.error(
        { digest },
        'content is damaged on the disk: it was set aside in content/damaged. Cached content is fetched again; push or request other content again',
      ),
  });
  const opened = content;
  // Content that was being received when the last process ended.
  await content.removeLeftovers(Number.POSITIVE_INFINITY);
  await removeSifLeftovers(pathOf('sif'));
  return {
    pathOf,
    slabs,
    space,
    content,
    database,
    usage: createUsageStore(database),
    audit: createAuditLog(database, err =>
      log.error({ err }, 'the audit log cannot be written: its entries wait'),
    ),
    cachedBlobs: createCachedBlobStore(database),
    fetchedLayers: createFetchedLayerStore(database),
    hosted: createHostedStore(database),
    requests: createRequestStore(database),
    builds: createBuildStore(database),
    anonymousUse: createAnonymousUseStore(database),
    clock: createSteadyClock(createClockReadingStore(database)),
    tokenPairs: createTokenPairStore(database),
    pairings: createPairingStore(database),
    secrets: openSecretBox(config.data),
    signingKey: readKeyFile(pathOf('registry-token.key')),
    async close() {
      await closeInTurn(
        [
          ['content', opened.close],
          ['database', database.end],
          ['lock', () => lock[Symbol.dispose]()],
        ],
        log,
      );
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
