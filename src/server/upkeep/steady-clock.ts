import { uptime } from 'node:os';
import type { Logger } from '../../foundation/telemetry.ts';
import type { ClockReading, ClockReadingStore } from '../../storage/rows/file/clock-readings.ts';

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
  /** ms since the machine started, including sleep; changes of the wall clock do not affect it */
  readonly uptime: () => number;
}

// Corrections of a correct clock are much smaller.
const jumpMs = 3_600_000;
const settleMs = 24 * 3_600_000;
// The time that a machine was off is unknown; a week is not unusual.
const longestOffMs = 7 * settleMs;
const sources: ClockSources = { wall: Date.now, uptime: () => uptime() * 1000 };

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
  uptimeMs: number,
): ClockState & { readonly reading: ClockReading } {
  const aheadMs = before === undefined ? 0 : aheadOf(before, wallMs, uptimeMs);
  const isJump = Math.abs(aheadMs) > jumpMs;
  const known = before?.steadyFromMs ?? 0;
  // Later than a day from now: a wrong clock set it, and has been set back since.
  const kept = known > wallMs + settleMs ? 0 : known;
  const steadyFromMs = aheadMs > jumpMs ? wallMs + settleMs : kept;
  return {
    isSteady: wallMs >= steadyFromMs,
    jumpMs: isJump ? aheadMs : undefined,
    reading: { wallMs, uptimeMs, steadyFromMs },
  };
}

export function createSteadyClock(
  store: ClockReadingStore,
  { wall, uptime: sinceStart }: ClockSources = sources,
): SteadyClock {
  let last: ClockReading | undefined;
  // All regular work looks at once when the server starts.
  let reading: ReturnType<ClockReadingStore['read']> | undefined;
  const readOnce = () => {
    reading ??= store.read().finally(() => {
      reading = undefined;
    });
    return reading;
  };
  return {
    async look() {
      const stored = last ?? (await readOnce());
      // The reading of another look is newer than the stored one.
      const { reading: now, ...state } = compareClocks(last ?? stored, wall(), sinceStart());
      last = now;
      store.write(now);
      return state;
    },
  };
}

/** Returns how far the wall clock has moved ahead of the elapsed time (ms). */
function aheadOf(before: ClockReading, wallMs: number, uptimeMs: number): number {
  const passedMs = wallMs - before.wallMs;
  const isSameRun = uptimeMs >= before.uptimeMs;
  if (isSameRun) return passedMs - (uptimeMs - before.uptimeMs);
  // The machine has restarted since: it ran for its uptime, and may have been off before.
  return passedMs > longestOffMs || passedMs < 0 ? passedMs : 0;
}
