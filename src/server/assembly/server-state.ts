import { existsSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { type BringBuilder, removeSifLeftovers } from '../../builds/index.ts';
import { Fault } from '../../foundation/fault.ts';
import {
  addDatabaseMetrics,
  addDiskMetrics,
  addReadReplicaMetrics,
  type createMetricsRegistry,
  createRemoteHealth,
  type Logger,
  withMetrics,
} from '../../foundation/telemetry/index.ts';
import type { Version } from '../../foundation/version.ts';
import { closeInTurn } from '../../foundation/work.ts';
import { mostOpen } from '../../hosted/uploads/index.ts';
import { openListingFiles } from '../../images/listing/index.ts';
import { canonicalRegistry } from '../../oci/naming.ts';
import { type ContentStore, SlabPool } from '../../storage/content/index.ts';
import {
  createDiskSpace,
  lockData,
  makePrivate,
  readKeyFile,
  requireSafeFileSystem,
} from '../../storage/directory/index.ts';
import {
  isDirectory,
  isSqlite,
  openNamedObjects,
  openSiteContent,
  openSiteRows,
} from '../../storage/index.ts';
import { type AuditKind, openSecretBox, type ReadReplicaUse } from '../../storage/rows/index.ts';
import type { ServerLock } from '../../storage/rows/postgres/index.ts';
import { requireSecretsKey } from '../../storage/whole-data.ts';
import type { ProxyFor } from '../../upstream/auth/index.ts';
import { type Config, keyDirectory } from '../config/index.ts';
import { readReplicaSettings } from '../config/read/index.ts';
import { createDiskUseWatch } from '../upkeep/index.ts';
import { clocksOf, createSteadyClock } from '../upkeep/sweep/index.ts';

const listingsKeptMs = 30 * 24 * 3_600_000;

/** The state of the server in the data directory. */
export type State = Awaited<ReturnType<typeof openState>>;

/** Opens the data directory. Waits while another server uses it. */
export async function openState(
  { config, log, lock: held, proxyFor }: Pick<AppDeps, 'config' | 'log' | 'lock' | 'proxyFor'>,
  metrics: ReturnType<typeof createMetricsRegistry>,
) {
  const pathOf = (name: string) => join(config.data, name);
  await makeDirectory(config.data);
  // With rows and content elsewhere, the directory has copies only.
  const isOnlyCopy = !isSqlite(config) && !isDirectory(config);
  if (!config.disk.anyFileSystem && !isOnlyCopy) requireSafeFileSystem(config.data);
  for (const path of await makePrivate(config.data)) {
    log.warn(
      { path },
      'other users of this machine may read this path, and its mode cannot be changed',
    );
  }
  const lock = await lockData(config.data, () =>
    log.warn('another server uses the data directory: waiting until it stops'),
  );
  const space = await createDiskSpace(config.data, config.disk.minFreeBytes, log);
  // SQLite removes its log when the database is closed. Nothing says how a server on PostgreSQL ended.
  const wasKilled = !isSqlite(config) || existsSync(pathOf('sluice.db-wal'));
  let content: ContentStore | undefined;
  const rows = await openSiteRows(config, {
    settleFirst: async () => content?.settle(),
    onFailedCopy: reason =>
      log.error(
        { reason },
        'cannot copy the write-ahead log into the database, so its file grows: check the disk and the file of the database',
      ),
    onLock: news => logLock(log, news),
    readReplica: readReplicaOf({ config, log }),
    ...(held ? { lock: held } : {}),
  });
  await requireSecretsKey(keyDirectory(config), rows);
  const slabs = new SlabPool();
  content = await openSiteContent({ ...config, proxyFor }, rows, {
    isOwner: true,
    wasKilled,
    space,
    slabs,
    trustMs: config.scrub.trust,
    onDamaged: digest =>
      log.error(
        { digest },
        'content is damaged and was moved to damaged/ in its store. Cached content is downloaded again; push or request other content again',
      ),
  });
  const opened = content;
  const buildLogs = isDirectory(config)
    ? undefined
    : await openNamedObjects({ ...config, proxyFor }, 'logs/builds');
  const diskUse = createDiskUseWatch({ directory: config.data, content, rows });
  addDiskMetrics(metrics, diskUse.latest);
  addDatabaseMetrics(metrics, () => rows.connections?.());
  addReadReplicaMetrics(metrics, () => rows.readReplica?.());
  const keptUploads = await rows.uploads.latest(mostOpen);
  // Removes content that the last process had not received completely, and no client can continue.
  await content.removeLeftovers(Number.POSITIVE_INFINITY, keptUploads);
  await removeSifLeftovers(pathOf('sif'));
  const listings = await openListingFiles({
    directory: pathOf('listings'),
    space,
    maxBytes: config.disk.listingBytes,
    keepMs: listingsKeptMs,
  });
  const openAudit = (kind: AuditKind) =>
    rows.auditLog(err => log.error({ err }, 'cannot write the audit log: its entries wait'), kind);
  const audit = openAudit('changes');
  return {
    pathOf,
    slabs,
    space,
    content,
    rows,
    diskUse,
    listings,
    // With content in a directory, logs stay there as well.
    buildLogs,
    // The stores that most parts use.
    usage: rows.usage,
    remotes: createRemoteHealth({ registries: namedRegistries(config) }),
    tally: withMetrics(rows.dayCounts, metrics),
    cachedBlobs: rows.cachedBlobs,
    hosted: rows.hosted,
    keptUploads,
    audit,
    /** The audit logs by what they record. */
    audits: { changes: audit, pulls: openAudit('pulls'), builds: openAudit('builds') },
    clock: createSteadyClock(rows.clockReadings, clocksOf(rows)),
    secrets: openSecretBox(keyDirectory(config)),
    signingKey: readKeyFile(join(keyDirectory(config), 'registry-token.key')),
    async close() {
      await closeInTurn(
        [
          ['content', opened.close],
          ['logs of builds', () => buildLogs?.close()],
          ['database', rows.end],
          ['lock', () => lock[Symbol.dispose]()],
        ],
        log,
      );
    },
  };
}

/** Returns the read replica of the settings. The log says when it is used, and why it is not. */
export function readReplicaOf({
  config,
  log,
}: Pick<AppDeps, 'config' | 'log'>): ReadReplicaUse | undefined {
  const settings = readReplicaSettings(config);
  return (
    settings && {
      ...settings,
      onChange(reason) {
        if (reason === undefined) log.info('the read replica of the database answers lists');
        else log.warn({ reason }, 'the read replica is not used: the database answers lists');
      },
    }
  );
}

export function logLock(log: AppDeps['log'], news: 'silent' | 'lost' | 'held' | 'taken'): void {
  if (news === 'held') log.info('the lock of the database is held again: changes continue');
  else if (news === 'silent') {
    log.warn(
      'the database does not answer: changes fail until it does, and pulls of known images continue',
    );
  } else if (news === 'lost') {
    log.warn(
      'the lock of the database is lost with its connection: changes wait or fail until it is held again',
    );
  } else {
    log.error(
      'another server has taken the database, and this server changes nothing any more: stop one of them, and restart this one if it is the one to keep',
    );
  }
}

/**
 * Makes the data directory, accessible only for its owner. An existing directory stays as it is. The recursive mkdir of
 * Node never ends where the system allows no directories, such as below /proc.
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
        `The data directory ${path} cannot be created (${code}): name another one with SLUICE_DATA`,
        { phase: 'store', cause: error },
      );
    }
    await makeDirectory(parent);
    await mkdir(path, { mode: 0o700 });
  }
}

/** Returns the registries of the configuration, and their mirrors. */
function namedRegistries({ registries }: Config): string[] {
  return Object.entries(registries)
    .flatMap(([host, { mirrors }]) => [host, ...mirrors])
    .map(canonicalRegistry);
}

/** Dependencies of the parts of the server. */
export interface AppDeps {
  readonly config: Config;
  readonly publicUrl: URL;
  readonly log: Logger;
  readonly version: Version;
  /** The proxies for connections to other hosts. */
  readonly proxyFor: ProxyFor;
  /** Text of a Docker configuration with credentials. */
  readonly dockerAuthConfig?: string | undefined;
  /** Installs a builder when none is found. */
  readonly bringBuilder?: BringBuilder | undefined;
  /** Installs uv when it is missing. */
  readonly bringUv?: BringBuilder | undefined;
  /** For one of several replicas: it leads, and has the lock of the database. */
  readonly lock?: ServerLock | undefined;
}
