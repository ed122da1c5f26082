import pg from 'pg';
import { connectionOf } from './postgres-connection.ts';
import type { LockNews } from './server-lock.ts';
import { type Leader, readLeader, type ServerLock, takeServerLock } from './server-lock.ts';

export interface LeadWait {
  /** Called each half second with the replica that leads now; undefined while nobody does. */
  readonly onLeader: (leader: Leader | undefined) => void;
  readonly onNews: (news: LockNews) => void;
  /** Ends the wait. */
  readonly signal: AbortSignal;
}

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
      ...connectionOf(url),
      query_timeout: answerMs,
      application_name: 'sluice replica',
    });
  return takeServerLock(create, {
    patienceMs: Number.POSITIVE_INFINITY,
    ...{ onNews, signal },
    whileWaiting: async client => onLeader(await readLeader(client)),
  });
}
