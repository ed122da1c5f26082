import type { RowDatabase } from '../driver/row-database.ts';
import { atLast } from '../driver/together.ts';
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

export type Deed = Pick<AuditEntry, 'actor' | 'action' | 'target'> & {
  readonly client?: string | undefined;
};

/** The administrative actions, kept for a time. The log contains no secrets. */
export interface AuditLog {
  /** Notes an action. It is written with the next turn of the event loop; a failure is reported, not thrown. */
  add(deed: Deed): void;
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
// Entries that cannot be written wait, for instance for disk space. Entries above this number are dropped.
const maxWaiting = 10_000;
const retryMs = 5000;

export function createAuditLog(database: RowDatabase, onError: (error: unknown) => void): AuditLog {
  const insert = database.sql(
    'INSERT INTO audit (at, actor, client, action, target) VALUES (?, ?, ?, ?, ?)',
  );
  const list = database.sql<AuditEntry>(
    'SELECT id, at, actor, client, action, target FROM audit WHERE id < ? ORDER BY id DESC LIMIT ?',
  );
  const last = database.sql<{ id: number }>('SELECT COALESCE(MAX(id), 0) AS id FROM audit');
  const remove = database.sql(
    `DELETE FROM audit WHERE id IN (SELECT id FROM audit ORDER BY id LIMIT ?)
     AND (at < ? OR id <= ?)`,
  );
  let waiting: (readonly [number, string, string | null, string, string])[] = [];
  let isScheduled = false;
  let flushing: Promise<void> | undefined;

  const writeAll = async (): Promise<void> => {
    while (waiting.length > 0) {
      const rows = waiting;
      waiting = [];
      try {
        await database.write(function* () {
          yield* atLast(rows.map(row => insert.run(...row)));
        });
      } catch (error) {
        waiting = [...rows, ...waiting].slice(-maxWaiting);
        onError(error);
        setTimeout(flush, retryMs).unref();
        return;
      }
    }
  };
  const flush = (): Promise<void> => {
    flushing ??= writeAll().finally(() => {
      flushing = undefined;
    });
    return flushing;
  };

  return {
    flush,

    add({ actor, client = null, action, target }) {
      if (waiting.length >= maxWaiting) waiting.shift();
      const cut = (text: string) => text.slice(0, longestText);
      waiting.push([Date.now(), cut(actor), client, action, cut(target)]);
      if (isScheduled) return;
      isScheduled = true;
      setImmediate(() => {
        isScheduled = false;
        flush();
      });
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
