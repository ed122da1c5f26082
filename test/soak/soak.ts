/** Rounds of work, and the figures of the servers after each. */
import { setTimeout as sleep } from 'node:timers/promises';
import { ageRows } from './age-rows.ts';
import { type Figures, figuresOf, type Measured } from './figures.ts';
import { outage, works } from './soak-works.ts';
import { type SoakWorld, startSoakWorld } from './soak-world.ts';
import { type Trend, trendOf } from './trend.ts';

export interface SoakOptions {
  /** Rounds whose figures do not count: caches, pools and compiled code are new. */
  readonly warmUp: number;
  /** Ends the soak: given the rounds since the warm-up. */
  readonly isOver: (rounds: number) => boolean;
  readonly replicas?: number;
  /** How long sweeps, purges and ends of connections get after the work of a round (ms). Default: 1500. */
  readonly restMs?: number;
  /** A folder for the heap of the servers at the beginning and at the end of the judged rounds. */
  readonly snapshots?: string | undefined;
  /** Which figures are judged. Default: all. */
  readonly judged?: RegExp;
  /** Called after each round. */
  readonly onRound?: (round: number, figures: readonly Figures[]) => void;
}

export interface SoakReport {
  readonly rounds: number;
  /** What the server did wrong. */
  readonly failures: readonly string[];
  /** By server and figure. */
  readonly trends: ReadonlyMap<string, Trend>;
  /** Those that grow. */
  readonly growing: readonly string[];
}

const kibibyte = 1024;
const usualRestMs = 1500;
// An outage lasts for as long as the attempts of requests.
const betweenOutages = 3;
const snapshotMs = 8000;
const samplesOfRound = 3;
const betweenMs = 200;

/**
 * Slopes in a round that are not a leak: half a unit in a hundred rounds, and what memory has as noise. The heap may not keep 100 bytes
 * of each of about 200 requests of a round.
 */
const usualAllowance = 0.005;
const allowances: readonly (readonly [RegExp, number])[] = [
  [/heap$/, 12 * kibibyte],
  // All of it is compiled in the end.
  [/compiled code$/, 96 * kibibyte],
  [/(?:external|array buffers)$/, 4 * kibibyte],
  // With compiled code, and what the allocator keeps.
  [/resident memory$/, 256 * kibibyte],
];

/** Runs rounds of all works, each at another server, and judges the figures after the warm-up. */
export async function soak(options: SoakOptions): Promise<SoakReport> {
  const {
    warmUp,
    isOver,
    replicas = 1,
    restMs = usualRestMs,
    judged = /./,
    onRound,
    snapshots,
  } = options;
  await using world = await startSoakWorld({ replicas, snapshots });
  const samples: Figures[][] = world.measured.map(() => []);
  const failures: string[] = [];
  let rounds = 0;
  for (let number = 1; !isOver(rounds); number += 1) {
    failures.push(...(await runRound(world, number, restMs)));
    const figures = await Promise.all(world.measured.map(atRest));
    onRound?.(number, figures);
    if (number === warmUp && snapshots) await writeSnapshots(world);
    if (number <= warmUp) continue;
    rounds += 1;
    for (const [at, one] of figures.entries()) samples[at]?.push(one);
  }
  if (snapshots) await writeSnapshots(world);
  const trends = new Map(samples.flatMap((rounds, at) => trendsOf(rounds, `server ${at + 1}, `)));
  const growing = [...trends]
    .filter(([name, { grows }]) => grows && judged.test(name))
    .map(([name]) => name);
  return { rounds, failures, trends, growing };
}

/** Returns what went wrong. */
async function runRound(world: SoakWorld, number: number, restMs: number): Promise<string[]> {
  const { servers } = world;
  const serverOf = (at: number) => {
    const server = servers[(number + at) % servers.length];
    if (!server) throw new Error('no server');
    return server;
  };
  const run = works.filter(work => work !== outage);
  const ends = await Promise.allSettled(
    run.map((work, at) => work({ world, number, server: serverOf(at) })),
  );
  if (number % betweenOutages === 0) {
    const work = outage({ world, number, server: serverOf(0) });
    ends.push(...(await Promise.allSettled([work])));
  }
  const [first] = world.measured;
  if (first) await ageRows(first, number);
  // Sweeps and purges run once in this time, and connections of clients that left end.
  await sleep(restMs);
  const failed = ends.filter(end => end.status === 'rejected');
  return failed.map(({ reason }) => `round ${number}: ${reason?.stack ?? reason}`);
}

async function writeSnapshots({ measured }: SoakWorld): Promise<void> {
  for (const { pid } of measured) process.kill(pid, 'SIGUSR2');
  await sleep(snapshotMs);
}

/** Returns the least of some samples: a sweep that runs has memory and files for a moment. */
async function atRest(server: Measured): Promise<Figures> {
  const least: Record<string, number> = {};
  for (let at = 0; at < samplesOfRound; at += 1) {
    if (at > 0) await sleep(betweenMs);
    const sample = await figuresOf(server);
    const names = at === 0 ? Object.keys(sample) : Object.keys(least);
    for (const name of names) {
      least[name] = Math.min(least[name] ?? Number.POSITIVE_INFINITY, sample[name] ?? 0);
    }
  }
  return least;
}

function trendsOf(rounds: readonly Figures[], prefix: string): [string, Trend][] {
  const names = new Set(rounds.flatMap(one => Object.keys(one)));
  return [...names].map(name => {
    const allowed = allowances.find(([pattern]) => pattern.test(name))?.[1] ?? usualAllowance;
    const figures = rounds.map(one => one[name] ?? 0);
    return [prefix + name, trendOf(figures, allowed)];
  });
}
