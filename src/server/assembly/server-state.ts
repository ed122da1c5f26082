import { existsSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { removeSifLeftovers } from '../../builds/solve/sif/sif-leftovers.ts';
import { closeInTurn } from '../../foundation/closing.ts';
import { Fault } from '../../foundation/fault.ts';
import { SlabPool } from '../../storage/content/buffers.ts';
import { openContentDirectory } from '../../storage/content/content-directory.ts';
import type { ContentStore } from '../../storage/content/content-store.ts';
import { lockData } from '../../storage/directory/data-lock.ts';
import { createDiskSpace } from '../../storage/directory/disk-space.ts';
import { readKeyFile } from '../../storage/directory/key-file.ts';
import { makePrivate } from '../../storage/directory/private-modes.ts';
import { createClockReadingStore } from '../../storage/rows/clock-readings.ts';
import { openDatabase } from '../../storage/rows/database.ts';
import { createContextStore } from '../../storage/rows/hosted/context-rows.ts';
import { createHostedStore } from '../../storage/rows/hosted/hosted-rows.ts';
import { createAnonymousUseStore } from '../../storage/rows/images/anonymous-use.ts';
import { createBuildStore } from '../../storage/rows/images/build-rows.ts';
import { createCachedBlobStore } from '../../storage/rows/images/cached-blob-rows.ts';
import { createContentRowStore } from '../../storage/rows/images/content-rows.ts';
import { createFetchedLayerStore } from '../../storage/rows/images/fetched-layer-rows.ts';
import { createRequestStore } from '../../storage/rows/images/request-rows.ts';
import { createUsageStore } from '../../storage/rows/images/usage-rows.ts';
import { createAuditLog } from '../../storage/rows/people/audit-log.ts';
import { createPairingStore } from '../../storage/rows/people/pairing-rows.ts';
import { createTokenPairStore } from '../../storage/rows/people/token-pair-rows.ts';
import { openSecretBox } from '../../storage/rows/secrets/secret-keys.ts';
import { requireContent, requireDatabase, requireSecretsKey } from '../../storage/whole-data.ts';
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
  const contentRows = createContentRowStore(database);
  content = await openContentDirectory(pathOf('content'), {
    uses: contentRows,
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
    contentRows,
    database,
    usage: createUsageStore(database),
    audit: createAuditLog(database, err =>
      log.error({ err }, 'the audit log cannot be written: its entries wait'),
    ),
    cachedBlobs: createCachedBlobStore(database),
    fetchedLayers: createFetchedLayerStore(database),
    hosted: createHostedStore(database),
    contexts: createContextStore(database),
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
