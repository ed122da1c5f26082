import pg from 'pg';
import type { LockNews } from './server-lock.ts';
import { type Leader, readLeader, type ServerLock, takeServerLock } from './server-lock.ts';

export interface LeadWait {
  /** Called each half second with the replica that leads now; undefined while nobody does. */
  readonly onLeader: (leader: Leader | undefined) => void;
  readonly onNews: (news: LockNews) => void;
  /** Ends the wait. */
  readonly signal: AbortSignal;
}

const connectMs = 5000;
const answerMs = 10_000;

/**
 * Waits until no other replica has the lock of the server, and takes it. Waits through outages of the database.
 *
 * @throws the reason of the signal
 */
export function awaitLead(
  url: string,
  { onLeader, onNews, signal }: LeadWait,
): Promise<ServerLock> {
  const create = () =>
    new pg.Client({
      connectionString: url,
      connectionTimeoutMillis: connectMs,
      query_timeout: answerMs,
      keepAlive: true,
      application_name: 'sluice replica',
    });
  return takeServerLock(create, {
    patienceMs: Number.POSITIVE_INFINITY,
    ...{ onNews, signal },
    whileWaiting: async client => onLeader(await readLeader(client)),
  });
}
