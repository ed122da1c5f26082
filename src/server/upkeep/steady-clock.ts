import { uptime } from 'node:os';
import { SingleFlight } from '../../foundation/single-flight.ts';
import type { Logger } from '../../foundation/telemetry/index.ts';
import type { ClockReading, ClockReadingStore } from '../../storage/rows/file/index.ts';
import type { Rows } from '../../storage/rows/index.ts';

/** Reports whether the wall clock is reliable. Callers ask before they delete something because of its age. */
export interface SteadyClock {
  /** Reads the clock, compares it with the last reading, and stores the reading. */
  look(): Promise<ClockState>;
}

export interface ClockState {
  /** False for a day after a jump forward: entries that look old by the clock may still be young. */
  readonly isSteady: boolean;
  /** How far the clock has jumped ahead of the elapsed time since the last look (ms); negative for a jump back. */
  readonly jumpMs: number | undefined;
}

export interface ClockSources {
  /** ms since the epoch */
  readonly wall: () => number;
  /**
   * ms of a clock that changes of the wall clock do not affect: since the machine started, including sleep; or since the
   * epoch, by the database that several machines share
   */
  readonly elapsed: () => number | Promise<number>;
  /** Where `elapsed` is a wall clock: that of a database on this machine jumps with ours. */
  readonly local?: LocalClock;
}

/** A clock of this machine that changes of the wall clock do not affect. */
export interface LocalClock {
  /** ms since this machine started, including sleep */
  readonly now: () => number;
  /** By how much the wall clock was ahead of it when this process started (ms): a replica may lead much later. */
  readonly startOffsetMs: number;
}

// Corrections of a correct clock are much smaller.
const jumpMs = 3_600_000;
const settleMs = 24 * 3_600_000;
// The time that a machine was off is unknown; a week is not unusual.
const longestOffMs = 7 * settleMs;
const sinceStart = () => uptime() * 1000;
// No machine is up for that long: a later time is one since the epoch.
const longestUptimeMs = 10 * 365 * settleMs;

/** Returns the clocks to compare. Servers of one database use its clock: each has another uptime. */
export function clocksOf({ databaseTime }: Pick<Rows, 'databaseTime'>): Partial<ClockSources> {
  if (!databaseTime) return {};
  const startOffsetMs = performance.timeOrigin - (sinceStart() - performance.now());
  return { elapsed: databaseTime, local: { now: sinceStart, startOffsetMs } };
}

/** Returns a function that checks whether the clock is reliable; each jump is logged once. */
export function createClockCheck(clock: SteadyClock, log: Logger): () => Promise<boolean> {
  return async () => {
    const { isSteady, jumpMs: jump } = await clock.look();
    if (jump !== undefined) {
      const hours = Math.round(jump / 3_600_000);
      log.warn({ hours }, isSteady ? setBack : jumpedAhead);
    }
    return isSteady;
  };
}

const setBack = 'the clock was set back: times in the future count as the current time';
const jumpedAhead =
  'the clock jumped ahead: nothing is deleted because of its age for 24 hours; check the clock of this machine';

/** Returns the result of a look at the clocks, and the reading to store. Pure. */
function compareClocks(
  before: ClockReading | undefined,
  wallMs: number,
  elapsedMs: number,
  localAheadMs: number,
): ClockState & { readonly reading: ClockReading } {
  const ahead = before === undefined ? 0 : aheadOf(before, wallMs, elapsedMs);
  const aheadMs = Math.max(ahead, localAheadMs);
  const isJump = Math.abs(aheadMs) > jumpMs;
  const known = before?.steadyFromMs ?? 0;
  // Later than a day from now: a wrong clock set it, and has been set back since.
  const kept = known > wallMs + settleMs ? 0 : known;
  const steadyFromMs = aheadMs > jumpMs ? wallMs + settleMs : kept;
  return {
    isSteady: wallMs >= steadyFromMs,
    jumpMs: isJump ? aheadMs : undefined,
    reading: { wallMs, elapsedMs, steadyFromMs },
  };
}

/** @param clocks default: those of this machine */
export function createSteadyClock(
  store: ClockReadingStore,
  { wall = Date.now, elapsed = sinceStart, local }: Partial<ClockSources> = {},
): SteadyClock {
  let last: ClockReading | undefined;
  let offsetMs = local?.startOffsetMs ?? 0;
  // All regular work looks at once when the server starts.
  const reading = new SingleFlight<Awaited<ReturnType<ClockReadingStore['read']>>>();
  return {
    async look() {
      const [stored, passed] = await Promise.all([
        last ?? reading.run(() => store.read()),
        elapsed(),
      ]);
      const wallMs = wall();
      let localAhead = Number.NEGATIVE_INFINITY;
      if (local) {
        const offset = wallMs - local.now();
        localAhead = offset - offsetMs;
        offsetMs = offset;
      }
      // The reading of another look is newer than the stored one.
      const { reading: now, ...state } = compareClocks(last ?? stored, wallMs, passed, localAhead);
      last = now;
      store.write(now);
      return state;
    },
  };
}

/** Returns how far the wall clock has moved ahead of the elapsed time (ms). */
function aheadOf(before: ClockReading, wallMs: number, elapsedMs: number): number {
  // The rows have been moved to another database.
  if (elapsedMs > longestUptimeMs !== before.elapsedMs > longestUptimeMs) return 0;
  const passedMs = wallMs - before.wallMs;
  const isSameRun = elapsedMs >= before.elapsedMs;
  if (isSameRun) return passedMs - (elapsedMs - before.elapsedMs);
  // The machine has restarted since: it ran for its uptime, and may have been off before.
  return passedMs > longestOffMs || passedMs < 0 ? passedMs : 0;
}
