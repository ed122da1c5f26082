import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import type { Shares } from '../../src/builds/build-limits.ts';
import type { BuildTicket, OnBegin } from '../../src/builds/build-request.ts';
import { type Builds, type BuildsDeps, createBuilds } from '../../src/builds/builds.ts';
import { createBuildLogs } from '../../src/builds/logs/build-logs.ts';
import type { BuildPlan } from '../../src/builds/plan/build-plan.ts';
import { noTally } from '../../src/foundation/telemetry/tally.ts';
import { createLogger } from '../../src/foundation/telemetry.ts';
import { digestOf } from '../../src/oci/digest.ts';
import { type Database, openDatabase } from '../../src/storage/rows/database.ts';
import {
  type BuildOutcome,
  type BuildStore,
  createBuildStore,
} from '../../src/storage/rows/images/build-rows.ts';
import { makeTempDir, type TempDir } from '../world/temp-dir.ts';

/** The result of every build. */
export const made: BuildOutcome & { succeeded: true } = {
  succeeded: true,
  digest: digestOf('image'),
  mediaType: 'application/vnd.oci.image.manifest.v1+json',
  lockFile: undefined,
};

/** A running build, which the test ends. */
interface Running {
  readonly key: string;
  succeed(): void;
  fail(error: unknown): void;
}

/** The queue of builds on real rows, with builds that the test ends. */
export interface Bench extends AsyncDisposable {
  readonly builds: Builds;
  readonly store: BuildStore;
  readonly database: Database;
  readonly directory: TempDir;
  /** Running builds in the order of their start. */
  readonly running: Running[];
  /** Names of existing images. */
  readonly images: Set<string>;
  logOf(id: string): Promise<string>;
  /** Starts a new process on the same data directory. */
  restart(deps?: Partial<BuildsDeps>): Bench;
}

export async function startBench(deps: Partial<BuildsDeps> = {}): Promise<Bench> {
  return bench(await makeTempDir('builds'), openDatabase(':memory:'), deps);
}

/** Lets every caller use everything, unless the shares are given. */
export const shared = (inAll: number, { ofOne = inAll, ofAnonymous = inAll } = {}): Shares => ({
  ...{ inAll, ofOne, ofAnonymous },
});

function bench(directory: TempDir, database: Database, deps: Partial<BuildsDeps>): Bench {
  const store = createBuildStore(database);
  const logs = createBuildLogs(directory.join('logs'));
  const running: Running[] = [];
  const images = new Set<string>();
  const builds = createBuilds({
    store,
    logs,
    async solve({ plan, signal }) {
      const { promise, resolve, reject } = Promise.withResolvers<typeof made>();
      const stop = () => reject(new Error('aborted'));
      signal.addEventListener('abort', stop);
      const one: Running = { key: plan.key, succeed: () => resolve(made), fail: reject };
      running.push(one);
      try {
        const outcome = await promise;
        images.add(plan.target);
        return outcome;
      } finally {
        running.splice(running.indexOf(one), 1);
      }
    },
    find: async target => (images.has(target) ? made : undefined),
    // A grant of a test is its limits.
    limitsOf: grant => grant ?? '',
    admit: async () => {},
    builders: { isComing: () => false, untilThere: async () => {} },
    log: createLogger('silent'),
    tally: noTally,
    concurrent: shared(2),
    timeLimits: { usual: 60_000, trusted: 60_000 },
    retryAfterMs: 60_000,
    keep: { usual: 60_000, failed: 60_000, anonymous: 60_000 },
    remove: ({ id }, at) => store.remove(id, at),
    waiting: shared(100, { ofOne: 50 }),
    ...deps,
  });
  return {
    ...{ builds, store, database, directory, running, images },
    logOf: async id => (await logs.read(id)) ?? '',
    restart: more => bench(directory, database, { ...deps, ...more }),
    async [Symbol.asyncDispose]() {
      await builds.close();
      await directory.remove();
    },
  };
}

export const plan = (key: string): BuildPlan => ({
  key,
  target: `registry.example.com/builds:${key}`,
  origin: {
    kind: 'recipe',
    recipe: 'dockerfile',
    dockerfile: 'FROM scratch',
    files: {},
    lockStage: undefined,
    platforms: ['linux/amd64'],
    baseImages: [],
    cache: undefined,
  },
  change: {},
});

export const ask = (
  { builds }: Bench,
  key: string,
  owner = 'somebody',
  onBegin: OnBegin = () => () => {},
  isTrusted = false,
): Promise<BuildTicket> =>
  builds.request(plan(key), {
    ...{ owner, scope: owner, grant: undefined },
    ...{ isTrusted, onBegin },
  });

export const idOf = ({ id = '' }: BuildTicket): string => id;

/** Waits until exactly these builds run. */
export async function runningAre({ running }: Bench, keys: readonly string[]): Promise<void> {
  const actual = () => running.map(({ key }) => key);
  for (const began = Date.now(); Date.now() - began < 30_000; await sleep(5)) {
    if (isDeepStrictEqual(actual(), keys)) return;
  }
  assert.deepEqual(actual(), keys);
}
