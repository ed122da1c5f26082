import { Fault } from '../../foundation/fault.ts';
import type { ConnectionCounts, ReadReplicaState } from '../../foundation/telemetry/index.ts';
import {
  type ContentRowStore,
  type ContentUseStore,
  createContentRowStore,
  createContentUseStore,
} from './content-rows.ts';
import { type Database, openDatabase, type ServerUse } from './database.ts';
import {
  createDayCountStore,
  createQueueStore,
  type DayCountStore,
  type QueueStore,
} from './figures/count-rows.ts';
import {
  createPullStore,
  createUsageStore,
  type PullStore,
  type UsageStore,
} from './figures/usage-rows.ts';
import {
  type ClockReadingStore,
  createClockReadingStore,
  createIdentityStore,
  type IdentityStore,
} from './file/identity-rows.ts';
import { createRowsUpkeep, type RowsUpkeep } from './file/rows-upkeep.ts';
import {
  type ContextStore,
  createContextStore,
  createHostedStore,
  createUploadStore,
  type UploadStore,
} from './hosted/hosted-rows.ts';
import type { HostedStore } from './hosted/hosted-store.ts';
import { type AnonymousUseStore, createAnonymousUseStore } from './images/anonymous-share.ts';
import {
  type BuildListStore,
  type BuildStore,
  createBuildListStore,
  createBuildStore,
} from './images/build-rows.ts';
import { type CachedBlobStore, createCachedBlobStore } from './images/cached-blob-rows.ts';
import {
  createFetchedLayerStore,
  createPackageLayerStore,
  createVerifiedLayerStore,
  type FetchedLayerStore,
  type PackageLayerStore,
  type VerifiedLayerStore,
} from './images/layer-rows.ts';
import { createRequestStore, type RequestStore } from './images/request-rows.ts';
import { createRunStore, type RunStore } from './images/run-rows.ts';
import { createScanStore, type ScanStore } from './images/scan-rows.ts';
import { createMessageStore, type MessageStore } from './messages/message-rows.ts';
import { type AuditKind, type AuditLog, createAuditLog } from './people/audit-log.ts';
import { type CredentialStore, createCredentialStore } from './people/credential-rows.ts';
import {
  type AccessTokenStore,
  createAccessTokenStore,
  createSessionStore,
  type SessionStore,
} from './people/login-rows.ts';
import {
  createPairingStore,
  createTokenPairStore,
  type PairingStore,
  type TokenPairStore,
} from './people/platform-rows.ts';
import {
  createUserStore,
  createWorkspaceStore,
  type UserStore,
  type WorkspaceStore,
} from './people/user-rows.ts';
import type { PostgresUse } from './postgres/postgres-database.ts';
import type { ReadReplicaUse } from './postgres/read-replica.ts';
import type { RowDatabase } from './row-database.ts';
import { createSealedRowStore, type SealedRowStore } from './secret-box.ts';

/**
 * All rows of a server. A database across the network can fulfil the interface of every store: its methods are
 * asynchronous, and each atomic change is one method. To add another database, write another function that returns
 * `Rows`. It must pass `test/rows/conformance.ts`.
 */
export interface Rows {
  readonly requests: RequestStore;
  readonly runs: RunStore;
  readonly scans: ScanStore;
  readonly builds: BuildStore;
  readonly buildList: BuildListStore;
  readonly hosted: HostedStore;
  readonly contexts: ContextStore;
  readonly uploads: UploadStore;
  readonly contentRows: ContentRowStore;
  readonly cachedBlobs: CachedBlobStore;
  readonly fetchedLayers: FetchedLayerStore;
  readonly packageLayers: PackageLayerStore;
  readonly verifiedLayers: VerifiedLayerStore;
  readonly anonymousUse: AnonymousUseStore;
  readonly usage: UsageStore;
  readonly dayCounts: DayCountStore;
  readonly queue: QueueStore;
  readonly contentUse: ContentUseStore;
  readonly pulls: PullStore;
  readonly users: UserStore;
  readonly accessTokens: AccessTokenStore;
  readonly workspaces: WorkspaceStore;
  readonly credentials: CredentialStore;
  readonly tokenPairs: TokenPairStore;
  readonly pairings: PairingStore;
  readonly sessions: SessionStore;
  readonly messages: MessageStore;
  readonly sealed: SealedRowStore;
  readonly clockReadings: ClockReadingStore;
  readonly identity: IdentityStore;
  readonly upkeep: RowsUpkeep;
  /** Returns the connections to a database across the network. */
  readonly connections?: () => ConnectionCounts;
  /** Returns how the read replica of a database is used. Absent: there is none. */
  readonly readReplica?: () => ReadReplicaState;
  /** Returns the time of a database across the network, in ms since the epoch. Absent: each machine has its own database. */
  readonly databaseTime?: () => Promise<number>;
  /** Returns false while another server may change the rows: what this one has in memory may be outdated. */
  isCurrent(): boolean;
  /**
   * Throws a `Fault` (503) while no change can succeed, because the database does not respond, or another server has it. Says
   * so before the work of a change.
   */
  requireChanges(): void;
  /** Returns true if another replica could take the place of this one when the database responded last. */
  hasSuccessor(): boolean;
  /** Returns the audit log of a kind, by default of changes. It reports entries that it cannot write to `onError`. */
  auditLog(onError: (error: unknown) => void, kind?: AuditKind): AuditLog;
  /** Resolves when every earlier change would survive a power failure. */
  settle(): Promise<void>;
  /** Finishes the work in progress and closes the database. */
  end(): Promise<void>;
}

/**
 * Opens the SQLite file of a data directory, and creates it where it is absent.
 *
 * @param server for the server; absent for a command
 * @throws a `Fault` when a newer version wrote the file
 */
export function openRows(path: string, server?: ServerUse): Rows {
  return rowsOf(openDatabase(path, server));
}

/**
 * Connects to PostgreSQL.
 *
 * @param url `postgres://user:password@host:port/database`
 * @param replica answers reads that may be some seconds old
 * @throws a `Fault` when the database cannot be reached, or a newer version wrote it
 */
export async function openPostgresRows(
  url: string,
  use?: PostgresUse,
  replica?: ReadReplicaUse,
): Promise<Rows> {
  // Most servers keep their rows in a file, and never load this client.
  const { openPostgres } = await import('./postgres/postgres-database.ts');
  const database = await openPostgres(url, use);
  const { connections, databaseTime, isCurrent, requireChanges, hasSuccessor } = database;
  return Object.assign(await withReplica(database, replica), {
    connections,
    databaseTime,
    isCurrent,
    requireChanges,
    hasSuccessor,
  });
}

/** Returns the stores of a PostgreSQL database, and of its read replica. */
async function withReplica(
  database: RowDatabase & Pick<Rows, 'end'>,
  use: ReadReplicaUse | undefined,
): Promise<Stores> {
  if (!use) return storesOf(database, postgresUpkeep);
  const { openReadReplica } = await import('./postgres/read-replica.ts');
  const replica = openReadReplica(use, database);
  return {
    ...storesOf(database, postgresUpkeep, replica.database),
    readReplica: replica.state,
    async end() {
      await replica.end();
      await database.end();
    },
  };
}

/** What a server reads that does not lead. Its stores refuse changes. */
export type ReadRows = Stores;

/**
 * Returns the rows of a site for a server that only reads them.
 *
 * @param url as for {@link openPostgresRows}
 * @param replica as there
 */
export async function openReadRows(url: string, replica?: ReadReplicaUse): Promise<ReadRows> {
  const { openPostgresReader } = await import('./postgres/postgres-reader.ts');
  return withReplica(openPostgresReader(url), replica);
}

/** Returns the stores of an open SQLite file. */
export function rowsOf(database: Database): Rows {
  // Its lock ends with this process only.
  return Object.assign(storesOf(database, createRowsUpkeep(database)), {
    isCurrent: () => true,
    requireChanges() {},
    hasSuccessor: () => false,
  });
}

type Stores = Omit<Rows, 'isCurrent' | 'requireChanges' | 'hasSuccessor'>;

/** @param lists reads what may be some seconds old: lists and figures, on which no right, limit or change depends */
function storesOf(
  database: RowDatabase & Pick<Rows, 'end'>,
  upkeep: RowsUpkeep,
  lists: RowDatabase = database,
): Stores {
  return {
    requests: createRequestStore(database),
    runs: createRunStore(database),
    scans: createScanStore(database),
    builds: createBuildStore(database),
    buildList: createBuildListStore(lists),
    hosted: createHostedStore(database, lists),
    contexts: createContextStore(database),
    uploads: createUploadStore(database),
    contentRows: createContentRowStore(database),
    cachedBlobs: createCachedBlobStore(database),
    fetchedLayers: createFetchedLayerStore(database),
    packageLayers: createPackageLayerStore(database),
    verifiedLayers: createVerifiedLayerStore(database),
    anonymousUse: createAnonymousUseStore(database),
    usage: createUsageStore(lists),
    dayCounts: createDayCountStore(lists),
    queue: createQueueStore(lists),
    contentUse: createContentUseStore(database),
    pulls: createPullStore(lists),
    users: createUserStore(database),
    accessTokens: createAccessTokenStore(database),
    workspaces: createWorkspaceStore(database),
    credentials: createCredentialStore(database),
    tokenPairs: createTokenPairStore(database),
    pairings: createPairingStore(database),
    sessions: createSessionStore(database),
    messages: createMessageStore(database),
    sealed: createSealedRowStore(database),
    clockReadings: createClockReadingStore(database),
    identity: createIdentityStore(database),
    upkeep,
    auditLog: (onError, kind) => createAuditLog(database, onError, kind),
    settle: database.settle,
    end: database.end,
  };
}

/** PostgreSQL looks after its own files: it returns space by itself, and has its own tools for copies. */
const postgresUpkeep: RowsUpkeep = {
  freeSpace: async () => ({ freeBytes: 0, fileBytes: 0, isReturnable: true }),
  async returnFreeSpace() {},
  async compact() {},
  async copyTo() {
    throw new Fault(
      'bad-request',
      'The rows are in PostgreSQL, which this command does not copy: stop the server, and copy them with pg_dump',
      { phase: 'store' },
    );
  },
};
