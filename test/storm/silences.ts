import { setTimeout as sleep } from 'node:timers/promises';
import type { Random } from '../fuzz/random.ts';
import { eventually } from '../world/eventually.ts';
import type { Replicas } from '../world/replicas.ts';
import { query } from './leftovers.ts';

// Replicas stop reading after 2 s without news, a read has 1.5 s, and a leader gives up its sessions after 3.5 s of silence.
const longestMs = 6000;

const awaitLead = `application_name = 'sluice replica' AND pid NOT IN (SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted)`;
const holdsLock = `pid IN (SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))`;
const reads = `application_name = 'sluice reads'`;

/** Stops sessions of PostgreSQL for some seconds: it answers them later, and nobody closes them. Returns their number. */
async function silence(
  replicas: Replicas,
  sessions: string,
  random: Random,
  meanwhile: () => Promise<unknown> = async () => {},
): Promise<number> {
  const text = `SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND ${sessions}`;
  const found = await query<{ pid: number }>(replicas, text);
  const pids = found.map(({ pid }) => pid).filter(pid => signal(pid, 'SIGSTOP'));
  try {
    await Promise.all([sleep(500 + random.int(longestMs)), meanwhile()]);
  } finally {
    for (const pid of pids) signal(pid, 'SIGCONT');
  }
  return pids.length;
}

/** Returns false when the process has ended. */
function signal(pid: number, name: NodeJS.Signals): boolean {
  try {
    return process.kill(pid, name);
  } catch {
    return false;
  }
}

/** All replicas that follow hear nothing of the database, neither who leads nor its schema. */
export const silenceFollowers = (replicas: Replicas, random: Random) =>
  silence(replicas, awaitLead, random);

/** One follower hears nothing, and meanwhile another one takes the lead. */
export const silenceOneMeanwhile = (
  replicas: Replicas,
  random: Random,
  meanwhile: () => Promise<unknown>,
) =>
  silence(
    replicas,
    `pid = (SELECT min(pid) FROM pg_stat_activity WHERE datname = current_database() AND ${awaitLead})`,
    random,
    meanwhile,
  );

/** The statements of followers that answer pulls hang. */
export const silenceReads = (replicas: Replicas, random: Random) =>
  silence(replicas, reads, random);

/** The leader does not know whether it still holds the lock. */
export const silenceLock = (replicas: Replicas, random: Random) =>
  silence(replicas, holdsLock, random);

/** The leader loses its lock, and lives on. */
export async function loseLock(replicas: Replicas): Promise<void> {
  const [former] = await query(
    replicas,
    `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE ${holdsLock}`,
  );
  if (!former) return;
  await eventually('another one leads', async () => (await replicas.leader()) >= 0);
}

/** Replicas cannot reach each other. */
export async function cutLinks({ links }: Replicas, random: Random): Promise<void> {
  for (const link of links) link.refuse();
  try {
    await sleep(random.int(longestMs));
  } finally {
    for (const link of links) link.resume();
  }
}
