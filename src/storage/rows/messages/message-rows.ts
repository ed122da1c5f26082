import { type Call, type RowDatabase, together } from '../row-database.ts';
import { inSmallSteps } from '../small-steps.ts';

/** A message for one receiver. Its change of the rows, such as the end of a build, writes it in the same transaction. */
export interface NewMessage {
  /** The event, the same for all its receivers: a receiver that gets it twice knows it by this id. */
  readonly event: string;
  /** Name of the receiver. */
  readonly target: string;
  /** Whose event it is. The messages of a receiver take turns between them; empty for those who have no name. */
  readonly sender: string;
  readonly kind: string;
  /** What the event is about: a build, an image. */
  readonly subject: string;
  /** ms since the epoch */
  readonly createdAt: number;
  /** JSON text, without secrets. */
  readonly body: string;
}

/** A message that its receiver does not have yet. */
export interface MessageRow extends NewMessage {
  /** Messages are numbered in the order in which they were written, whoever's they are. */
  readonly id: number;
  /** Failed attempts. */
  readonly attempts: number;
  /** When the last attempt failed (ms since the epoch); null while there are attempts left. */
  readonly deadAt: number | null;
  /** Why the last attempt failed. */
  readonly error: string | null;
}

/** A message as a list shows it. */
export type ListedMessage = Omit<MessageRow, 'body' | 'sender'>;

interface MessageQuery {
  /** Only messages of which no attempt is left. */
  readonly isDead?: boolean | undefined;
  /** The message before which the list begins. */
  readonly before?: number | undefined;
  readonly limit: number;
}

/** What becomes of a message after a failed attempt. Times are ms since the epoch. */
interface FailedAttempt {
  readonly at: number;
  /** When the next attempt is due; undefined for none. */
  readonly nextAt: number | undefined;
  readonly error: string;
}

export interface MessageStore {
  /** Enters messages of an event without other changes of the rows. */
  add(messages: readonly NewMessage[]): Promise<void>;
  /**
   * Returns up to so many messages of a receiver that are due: one of each sender, then the next one of each, those of a sender
   * in their order.
   *
   * @param longestMs a message that is due later than after this time is due now: the clock was set back
   */
  due(target: string, at: number, longestMs: number, limit: number): Promise<MessageRow[]>;
  /** Returns one message that is due, of the first ones one with the fewest attempts; none without any. */
  leastTried(target: string, at: number, longestMs: number): Promise<MessageRow[]>;
  /** Removes a message that its receiver has. Does not wait for the disk. */
  remove(id: number): Promise<void>;
  /** Notes a failed attempt. Does not wait for the disk. */
  fail(id: number, failed: FailedAttempt): Promise<void>;
  /** Returns the time of the oldest message of a receiver (ms since the epoch); undefined for none. */
  oldest(target: string): Promise<number | undefined>;
  /** Returns messages, the newest first. */
  list(query: MessageQuery): Promise<ListedMessage[]>;
  /** Gives a message without attempts new ones; false for another message. */
  resend(id: number): Promise<boolean>;
  /** Does so for all messages without attempts; returns how many. */
  resendAll(): Promise<number>;
  /**
   * Removes messages of a receiver above a number of those that have attempts left: the newest of whoever has the most. Returns
   * how many.
   */
  trim(target: string, limit: number, signal?: AbortSignal): Promise<number>;
  /** Removes the messages whose last attempt is the longest ago, above a number of those without attempts; returns how many. */
  trimDead(limit: number, signal?: AbortSignal): Promise<number>;
  /** Removes messages that are older than the moment (ms since the epoch). */
  purge(before: number, signal?: AbortSignal): Promise<void>;
}

// A receiver that fails is asked with one of this many.
const mostCompared = 1000;

const listedColumns =
  'id, event, target, kind, subject, created_at AS createdAt, attempts, dead_at AS deadAt, error';

// The turn of a message: one after the last one that waits of its sender, or that of the first one that waits of all.
const isWaiting = 'target = @target AND dead_at IS NULL';
const afterOwn = `SELECT turn + 1 FROM messages WHERE ${isWaiting} AND sender = @sender ORDER BY id DESC LIMIT 1`;
const first = `SELECT turn FROM messages WHERE ${isWaiting} ORDER BY turn, id LIMIT 1`;

/** Returns the calls that write messages, for a change of other rows. A change that runs again writes none twice. */
export function messageInserts(
  database: RowDatabase,
): (messages: readonly NewMessage[]) => Call<void>[] {
  const insert = database.sql(
    `INSERT INTO messages (event, target, sender, turn, kind, subject, created_at, body)
     VALUES (@event, @target, @sender, COALESCE((${afterOwn}), (${first}), 0), @kind, @subject, @createdAt, @body)
     ON CONFLICT (event, target) DO NOTHING`,
  );
  return messages =>
    messages.map(({ event, target, sender, kind, subject, createdAt, body }) =>
      insert.run({ event, target, sender, kind, subject, createdAt, body }),
    );
}

export function createMessageStore(database: RowDatabase): MessageStore {
  const inserts = messageInserts(database);
  const isDue = 'target = @target AND dead_at IS NULL AND (next_at <= @at OR next_at > @latest)';
  const due = database.sql<MessageRow>(
    `SELECT ${listedColumns}, sender, body FROM messages WHERE ${isDue} ORDER BY turn, id LIMIT @limit`,
  );
  const dueAttempts = database.sql<Pick<MessageRow, 'id' | 'attempts'>>(
    `SELECT id, attempts FROM messages WHERE ${isDue} ORDER BY turn, id LIMIT @limit`,
  );
  const byId = database.sql<MessageRow>(
    `SELECT ${listedColumns}, sender, body FROM messages WHERE id = ? AND dead_at IS NULL`,
  );
  const oldest = database
    .sql('SELECT created_at FROM messages WHERE target = ? AND dead_at IS NULL ORDER BY id LIMIT 1')
    .pluck<number>();
  const remove = database.sql('DELETE FROM messages WHERE id = ?');
  const fail = database.sql(
    `UPDATE messages SET attempts = attempts + 1, next_at = @nextAt, dead_at = @deadAt, error = @error
     WHERE id = @id AND dead_at IS NULL`,
  );
  const list = database.sql<ListedMessage>(
    `SELECT ${listedColumns} FROM messages WHERE id < ? ORDER BY id DESC LIMIT ?`,
  );
  const dead = database.sql<ListedMessage>(
    `SELECT ${listedColumns} FROM messages WHERE dead_at IS NOT NULL AND id < ? ORDER BY id DESC LIMIT ?`,
  );
  const renewed = 'dead_at = NULL, attempts = 0, next_at = 0';
  const resend = database.sql(
    `UPDATE messages SET ${renewed} WHERE id = ? AND dead_at IS NOT NULL`,
  );
  const someDead = 'SELECT id FROM messages WHERE dead_at IS NOT NULL ORDER BY dead_at, id LIMIT ?';
  const resendSome = database.sql(`UPDATE messages SET ${renewed} WHERE id IN (${someDead})`);
  // The first of those that are too many. No sum of all is kept: the ends of all builds would change its one row.
  const firstOver = database.sql<{ readonly turn: number; readonly id: number }>(
    `SELECT turn, id FROM messages WHERE target = ? AND dead_at IS NULL ORDER BY turn, id LIMIT 1 OFFSET ?`,
  );
  const removeFrom = database.sql(
    `DELETE FROM messages WHERE id IN
     (SELECT id FROM messages WHERE ${isWaiting} AND (turn, id) >= (@turn, @id)
      ORDER BY turn, id LIMIT @limit)`,
  );
  const lastDeadOver = database.sql<{ readonly deadAt: number; readonly id: number }>(
    `SELECT dead_at AS deadAt, id FROM messages WHERE dead_at IS NOT NULL
     ORDER BY dead_at DESC, id DESC LIMIT 1 OFFSET ?`,
  );
  const removeDeadUntil = database.sql(
    `DELETE FROM messages WHERE id IN
     (SELECT id FROM messages WHERE dead_at IS NOT NULL AND (dead_at, id) <= (@deadAt, @id)
      ORDER BY dead_at, id LIMIT @limit)`,
  );
  const removeBefore = database.sql(
    `DELETE FROM messages WHERE id IN
     (SELECT id FROM messages WHERE created_at < ? ORDER BY created_at, id LIMIT ?)`,
  );

  return {
    add: messages =>
      database.write(function* () {
        yield* together(inserts(messages));
      }),
    due: (target, at, longestMs, limit) =>
      database.read(due.all({ target, at, latest: at + longestMs, limit })),
    async leastTried(target, at, longestMs) {
      const values = { target, at, latest: at + longestMs, limit: mostCompared };
      const [first, ...others] = await database.read(dueAttempts.all(values));
      if (first === undefined) return [];
      const least = others.reduce(
        (one, other) => (other.attempts < one.attempts ? other : one),
        first,
      );
      return database.read(byId.all(least.id));
    },
    oldest: target => database.read(oldest.get(target)),
    remove: id => database.commit(() => remove.run(id)),
    fail: (id, { at, nextAt, error }) =>
      database.commit(() =>
        fail.run({ id, nextAt: nextAt ?? 0, deadAt: nextAt === undefined ? at : null, error }),
      ),
    list: ({ isDead = false, before = Number.MAX_SAFE_INTEGER, limit }) =>
      database.read((isDead ? dead : list).all(before, limit)),
    resend: id => database.write(() => resend.hasChanged(id)),
    resendAll: () => inSmallSteps(database, limit => resendSome.changes(limit)),
    async trim(target, limit, signal) {
      const over = await database.read(firstOver.get(target, limit));
      if (over === undefined) return 0;
      const step = (rows: number) => removeFrom.changes({ target, ...over, limit: rows });
      return inSmallSteps(database, step, signal);
    },
    async trimDead(limit, signal) {
      const last = await database.read(lastDeadOver.get(limit));
      if (last === undefined) return 0;
      const step = (rows: number) => removeDeadUntil.changes({ ...last, limit: rows });
      return inSmallSteps(database, step, signal);
    },
    async purge(before, signal) {
      await inSmallSteps(database, limit => removeBefore.changes(before, limit), signal);
    },
  };
}
