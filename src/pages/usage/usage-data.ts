import type { Registry } from 'prom-client';
import type { BuildService, Builds } from '../../builds/index.ts';
import { Fault } from '../../foundation/fault.ts';
import { pauseTurn } from '../../foundation/pause-turn.ts';
import { dayMs, dayOf } from '../../foundation/telemetry/counted.ts';
import type { DiskUse, RemoteHealth } from '../../foundation/telemetry/index.ts';
import { type DiskState, diskState } from '../../storage/directory/index.ts';
import type { Metric, Rows, UsageStore } from '../../storage/rows/index.ts';

/** The metrics that the page shows. */
export const shownMetrics = ['pulls', 'builds'] as const satisfies readonly Metric[];
export type ShownMetric = (typeof shownMetrics)[number];

/** Days of a range, `yyyy-mm-dd` (UTC), both included. */
export interface DayRange {
  readonly from: string;
  readonly to: string;
}

export interface DayCount {
  readonly day: string;
  readonly count: number;
}

/** Use of a metric in a range. */
export interface MetricUsage {
  readonly metric: ShownMetric;
  readonly total: number;
  readonly days: readonly DayCount[];
  /** The organisations with the most events first; '' is for callers without one. */
  readonly orgs: ReadonlyArray<{ readonly org: string; readonly count: number }>;
  /** Events of organisations that are not listed. */
  readonly others: number;
}

/** The state of the server now. */
export interface ServerNow {
  readonly running: number;
  readonly waiting: number;
  readonly maxRunning: number;
  readonly maxWaiting: number;
  readonly disk: DiskState;
  /** Why the server is not ready; undefined if it is. */
  readonly trouble: string | undefined;
}

/** Limits of the configuration, in bytes; undefined for no limit. */
export interface StorageLimits {
  readonly cacheBytes: number;
  readonly hostedBytes: number | undefined;
  readonly repositoryBytes: number | undefined;
  readonly blobBytes: number | undefined;
  readonly contextBytes: number | undefined;
  readonly anonymousBytes: number | undefined;
  readonly anonymousBuildBytes: number | undefined;
  readonly repodataBytes: number;
  readonly builderBytes: number | undefined;
}

export interface UsagePageDeps {
  readonly usage: Pick<UsageStore, 'ofDay'>;
  readonly builds: Pick<Builds, 'load'>;
  readonly metrics: Registry;
  readonly readiness: { forAll(): Promise<void>; forReading(): Promise<void> };
  readonly remotes: Pick<RemoteHealth, 'list'>;
  readonly builderStates: BuildService['builderStates'];
  readonly figures: Pick<Rows, 'dayCounts' | 'queue' | 'cachedBlobs' | 'hosted' | 'anonymousUse'>;
  readonly diskUse: () => DiskUse | undefined;
  readonly operation: {
    readonly directory: string;
    readonly minFreeBytes: number;
    readonly maxRunning: number;
    readonly maxWaiting: number;
    readonly limits: StorageLimits;
  };
}

const usualDays = 30;
const mostDays = 366;
const mostOrgsOfDay = 100;
const shownOrgs = 50;

/** Returns the range of days in an address. Default: the last 30 days. Throws a `Fault` (400). */
export function rangeOf(
  from: string | undefined,
  to: string | undefined,
  now = Date.now(),
): DayRange {
  const last = dayIn(to) ?? dayOf(now);
  const first = dayIn(from) ?? dayOf(Date.parse(last) - (usualDays - 1) * dayMs);
  const days = (Date.parse(last) - Date.parse(first)) / dayMs + 1;
  if (days < 1) throw new Fault('bad-request', 'The first day is after the last day: swap them');
  if (days > mostDays) {
    throw new Fault('bad-request', `The range has ${days} days: choose at most ${mostDays}`);
  }
  return { from: first, to: last };
}

/** Returns the days of a range, from the first to the last one, both included. */
export function daysOf({ from, to }: DayRange): string[] {
  const days: string[] = [];
  for (let at = Date.parse(from); at <= Date.parse(to); at += dayMs) days.push(dayOf(at));
  return days;
}

/** Reads the use of a range, one day at a time, so that other work runs in between. */
export async function usageOf(
  metric: ShownMetric,
  range: DayRange,
  usage: UsagePageDeps['usage'],
): Promise<MetricUsage> {
  const days: DayCount[] = [];
  const sums = new Map<string, number>();
  for (const day of daysOf(range)) {
    const { count, orgs } = await usage.ofDay(metric, day, mostOrgsOfDay);
    days.push({ day, count });
    for (const [org, own] of orgs) sums.set(org, (sums.get(org) ?? 0) + own);
    await pauseTurn();
  }
  const total = days.reduce((sum, { count }) => sum + count, 0);
  const orgs = [...sums]
    .map(([org, count]) => ({ org, count }))
    .sort((one, other) => other.count - one.count)
    .slice(0, shownOrgs);
  const listed = orgs.reduce((sum, { count }) => sum + count, 0);
  return { metric, total, days, orgs, others: total - listed };
}

/** Returns the state of the server now. */
export async function serverNow(deps: UsagePageDeps): Promise<ServerNow> {
  const { builds, readiness, operation } = deps;
  const { directory, minFreeBytes, maxRunning, maxWaiting } = operation;
  const [disk, trouble] = await Promise.all([
    diskState(directory, minFreeBytes),
    readiness.forAll().then(
      () => undefined,
      (error: unknown) => (error instanceof Fault ? error.message : 'The server is not ready'),
    ),
  ]);
  return { ...builds.load(), maxRunning, maxWaiting, disk, trouble };
}

function dayIn(text: string | undefined): string | undefined {
  if (text === undefined || text === '') return undefined;
  const at = /^\d{4}-\d{2}-\d{2}$/.test(text) ? Date.parse(`${text}T00:00:00Z`) : Number.NaN;
  if (!Number.isNaN(at) && dayOf(at) === text) return text;
  throw new Fault('bad-request', 'A day has the form yyyy-mm-dd, such as 2026-01-31');
}
