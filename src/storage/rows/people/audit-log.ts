import { SingleFlight } from '../../../foundation/single-flight.ts';
import { atLast, type RowDatabase } from '../row-database.ts';
import { inSmallSteps } from '../small-steps.ts';

/** Who did what to what. */
export interface AuditEntry {
  readonly id: number;
  /** ms since the epoch */
  readonly at: number;
  /** `account admin`, `user ada@example.org`, `command line (root)`. */
  readonly actor: string;
  /** Address of the client; null for the command line. */
  readonly client: string | null;
  /** `token.create` and the like. */
  readonly action: string;
  readonly target: string;
}

export type AuditRecord = Pick<AuditEntry, 'actor' | 'action' | 'target'> & {
  readonly client?: string | undefined;
};

/**
 * What a log records: changes, which are the actions of administrators and all others that change something; pulls of
 * images; starts of builds. Each has its own table, so that many pulls remove no entry about a change.
 */
export const auditKinds = ['changes', 'pulls', 'builds'] as const;
export type AuditKind = (typeof auditKinds)[number];

/** What was done, kept for a time. The log contains no secrets. */
export interface AuditLog {
  /**
   * Notes an action, which no caller waits for. A change is written with the next turn of the event loop; pulls and
   * builds of a second are written together. A failure is reported, not thrown.
   */
  add(record: AuditRecord): void;
  /** Returns the newest entries first; with an id, only entries before it. */
  list(page: {
    readonly before?: number | undefined;
    readonly limit: number;
  }): Promise<AuditEntry[]>;
  /** Writes the entries that {@link add} has noted; reports a failure and retries later. */
  flush(): Promise<void>;
  /** Removes entries older than a moment (ms since the epoch), and the oldest entries above a maximum number. */
  purge(before: number, maxEntries: number, signal?: AbortSignal): Promise<void>;
}

const longestText = 300;
// Entries that cannot be written wait, for instance for disk space. The oldest above this number are dropped.
const maxWaiting = 10_000;
// As many as one transaction writes without holding up others.
const mostAtOnce = 500;
const retryMs = 5000;
const tables = { changes: 'audit', pulls: 'audit_pulls', builds: 'audit_builds' } as const;
/** How long entries wait to be written together (ms). A power failure loses those that wait. */
const gatherMs = { changes: 0, pulls: 1000, builds: 1000 } as const;

export function createAuditLog(
  database: RowDatabase,
  onError: (error: unknown) => void,
  kind: AuditKind = 'changes',
): AuditLog {
  const table = tables[kind];
  const insert = database.sql(
    `INSERT INTO ${table} (at, actor, client, action, target) VALUES (?, ?, ?, ?, ?)`,
  );
  const list = database.sql<AuditEntry>(
    `SELECT id, at, actor, client, action, target FROM ${table} WHERE id < ? ORDER BY id DESC LIMIT ?`,
  );
  const last = database.sql<{ id: number }>(`SELECT COALESCE(MAX(id), 0) AS id FROM ${table}`);
  const remove = database.sql(
    `DELETE FROM ${table} WHERE id IN (SELECT id FROM ${table} ORDER BY id LIMIT ?)
     AND (at < ? OR id <= ?)`,
  );
  let dropped = 0;
  let waiting: (readonly [number, string, string | null, string, string])[] = [];
  let isScheduled = false;
  const flushes = new SingleFlight<void>();

  const writeAll = async (): Promise<void> => {
    while (waiting.length > 0) {
      if (dropped > 0) {
        const target = `${dropped} entries that could not be written`;
        waiting.push([Date.now(), 'this server', null, 'audit.drop', target]);
        dropped = 0;
      }
      const rows = waiting.slice(0, mostAtOnce);
      waiting = waiting.slice(mostAtOnce);
      try {
        await database.write(function* () {
          yield* atLast(rows.map(row => insert.run(...row)));
        });
      } catch (error) {
        const all = [...rows, ...waiting];
        waiting = all.slice(-maxWaiting);
        dropped += all.length - waiting.length;
        onError(error);
        setTimeout(flush, retryMs).unref();
        return;
      }
    }
  };
  const flush = (): Promise<void> => flushes.run(writeAll);

  return {
    flush,

    add({ actor, client = null, action, target }) {
      if (waiting.length >= maxWaiting) {
        // Many at once, so that not every entry moves all others.
        dropped += waiting.splice(0, mostAtOnce).length;
      }
      const cut = (text: string) => text.slice(0, longestText);
      waiting.push([Date.now(), cut(actor), client, action, cut(target)]);
      if (isScheduled) return;
      isScheduled = true;
      const write = () => {
        isScheduled = false;
        flush();
      };
      if (gatherMs[kind] === 0) setImmediate(write);
      else setTimeout(write, gatherMs[kind]).unref();
    },

    async list({ before = Number.MAX_SAFE_INTEGER, limit }) {
      await flush();
      return database.read(list.all(before, limit));
    },

    async purge(before, maxEntries, signal) {
      const { id = 0 } = (await database.read(last.get())) ?? {};
      await inSmallSteps(database, rows => remove.changes(rows, before, id - maxEntries), signal);
    },
  };
}
