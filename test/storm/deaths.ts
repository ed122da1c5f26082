import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { openReplicaList } from '../../src/storage/rows/postgres/index.ts';
import type { Random } from '../fuzz/random.ts';
import type { Buildkitd } from '../world/buildkitd.ts';
import { eventually } from '../world/eventually.ts';
import type { ObjectStore } from '../world/object-store.ts';
import type { Postgres } from '../world/postgres.ts';
import type { Standby } from '../world/postgres-standby.ts';
import type { Replicas } from '../world/replicas.ts';
import type { Sluice } from '../world/sluice.ts';
import { query } from './leftovers.ts';
import {
  cutLinks,
  loseLock,
  silenceFollowers,
  silenceLock,
  silenceOneMeanwhile,
  silenceReads,
} from './silences.ts';

/** All that can die. */
export interface Site {
  readonly postgres: Postgres;
  readonly store: ObjectStore;
  readonly builders: readonly Buildkitd[];
  /** A read replica of the database, which answers lists. */
  readonly standby: Standby;
  /** A supervisor starts them again. */
  readonly replicas: Replicas;
}

type Death = (site: Site, random: Random) => Promise<unknown>;

const endLock = `SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`;

/** Of replicas, which a supervisor starts again. */
const ofReplicas = {
  'leader killed': async site => (await replica(site, true)).kill(),
  'replica killed': async site => (await replica(site, false)).kill(),
  'leader stopped': async site => (await replica(site, true)).stop(),
  /** While it finishes what it does, it must not take the lead. */
  'follower stopped': async site => (await replica(site, false)).stop(),
  /** Its machine hangs, and PostgreSQL gives its lock to another one. It wakes up and believes that it leads. */
  async 'leader cut off'(site) {
    const { replicas } = site;
    const leader = await replica(site, true);
    leader.process.kill('SIGSTOP');
    try {
      await query(replicas, endLock);
      await eventually('another one leads', async () => {
        const next = replicas.servers[await replicas.leader()];
        return next !== undefined && next !== leader;
      });
    } finally {
      leader.process.kill('SIGCONT');
    }
  },
  /** As `sluice replicas lead` does. The former leader ends after its transfers. */
  async 'lead moved'({ replicas }) {
    await using list = await openReplicaList(replicas.database);
    const former = await list.leader();
    const next = (await list.list()).find(({ role, address }) => role === 'follower' && address);
    if (!next || !(await list.choose(next.pid))) return;
    await eventually('another one leads', async () => {
      const leader = await list.leader();
      return leader !== undefined && leader !== former;
    });
  },
  'all replicas killed': ({ replicas }) => Promise.all(replicas.servers.map(one => one.kill())),
} as const satisfies Readonly<Record<string, Death>>;

/** Of what the replicas share. Each starts again after up to a second. */
const ofOthers = {
  async 'database crashed'({ postgres }, random) {
    await postgres.crash();
    await sleep(random.int(1000));
    await postgres.start();
  },
  async 'store killed'({ store }, random) {
    await store.kill();
    await sleep(random.int(1000));
    await store.start();
  },
  async 'builder killed'({ builders }, random) {
    const builder = random.pick(builders);
    await builder.kill();
    await sleep(random.int(1000));
    await builder.start();
  },
  async 'standby crashed'({ standby }, random) {
    await standby.crash();
    await sleep(random.int(1000));
    await standby.start();
  },
  /** Until it crashes the next time. */
  async 'standby late by a minute'({ standby }) {
    await standby.crash();
    await standby.start(['recovery_min_apply_delay=60s']);
  },
} as const satisfies Readonly<Record<string, Death>>;

/** What replicas do not hear, for some seconds. Nothing ends by that alone. */
const silences = {
  'followers hear nothing': ({ replicas }, random) => silenceFollowers(replicas, random),
  'a follower misses a new leader': ({ replicas }, random) =>
    silenceOneMeanwhile(replicas, random, async () =>
      replicas.servers[await replicas.leader()]?.kill(),
    ),
  'reads hang': ({ replicas }, random) => silenceReads(replicas, random),
  'the lock is in doubt': ({ replicas }, random) => silenceLock(replicas, random),
  'the lock is lost': ({ replicas }) => loseLock(replicas),
  'links cut': ({ replicas }, random) => cutLinks(replicas, random),
} as const satisfies Readonly<Record<string, Death>>;

const all: Readonly<Record<string, Death>> = { ...ofReplicas, ...ofOthers, ...silences };

// They meet the wait for the next leader.
const withLeader = new Set([...Object.keys(ofOthers), 'follower stopped']);

/** Returns an endless order of deaths: all of them, in a new order each time; some come with that of a leader. */
export function* orderOf(random: Random): Generator<readonly string[]> {
  for (;;) {
    const left = Object.keys(all);
    while (left.length > 0) {
      const [name = ''] = left.splice(random.int(left.length), 1);
      yield withLeader.has(name) && random.once(2) ? [name, 'leader killed'] : [name];
    }
  }
}

/** Returns when all that has died, except for the replicas, runs again. */
export async function die(site: Site, names: readonly string[], random: Random): Promise<void> {
  await Promise.all(names.map(name => all[name]?.(site, random)));
}

/** Returns the replica that leads, or one that does not. */
async function replica({ replicas }: Site, leads: boolean): Promise<Sluice> {
  let leader = -1;
  await eventually('one leads', async () => {
    leader = await replicas.leader();
    return leader >= 0;
  });
  const found = replicas.servers[leads ? leader : (leader + 1) % replicas.servers.length];
  assert.ok(found);
  return found;
}
