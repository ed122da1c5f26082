import { uptime } from 'node:os';
import type { Logger } from '../../foundation/telemetry.ts';
import type { ClockReading, ClockReadingStore } from '../../storage/rows/clock-readings.ts';

/** Says whether the wall clock can be relied on, before something is deleted because it is old. */
export interface SteadyClock {
  /** Looks at the clock, compared with what it showed before, and keeps what it shows. */
  look(): Promise<ClockState>;
}

export interface ClockState {
  /** False for a day after a jump forward: entries that look old by the clock may still be young. */
  readonly isSteady: boolean;
  /** ms that the clock has gone ahead of the time that passed, when it jumped since the last look; negative for back. */
  readonly jumpMs: number | undefined;
}

export interface ClockSources {
  /** ms since the epoch */
  readonly wall: () => number;
  /** ms since the machine was started, sleep included; no change of the wall clock moves it */
  readonly uptime: () => number;
}

// Corrections of a clock that was right are much smaller.
const jumpMs = 3_600_000;
const settleMs = 24 * 3_600_000;
// Nobody can say how long a machine was off; a week is nothing unusual.
const longestOffMs = 7 * settleMs;
const sources: ClockSources = { wall: Date.now, uptime: () => uptime() * 1000 };

/**
 * Returns what asks the clock whether it can be relied on; each jump is logged once.
 */
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

const setBack = 'the clock was set back: what was dated in the future counts as of now';
const jumpedAhead =
  'the clock jumped ahead: nothing is deleted because of its age for 24 hours; check the clock of this machine';

/** What a look at the clocks says, and the reading to keep. Pure. */
function compareClocks(
  before: ClockReading | undefined,
  wallMs: number,
  uptimeMs: number,
): ClockState & { readonly reading: ClockReading } {
  const aheadMs = before === undefined ? 0 : aheadOf(before, wallMs, uptimeMs);
  const isJump = Math.abs(aheadMs) > jumpMs;
  const known = before?.steadyFromMs ?? 0;
  // Later than a day from now: it was set by a clock that has been set back since.
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
  return {
    async look() {
      const stored = last ?? (await store.read());
      // The reading of another look is newer than the stored one.
      const { reading, ...state } = compareClocks(last ?? stored, wall(), sinceStart());
      last = reading;
      store.write(reading);
      return state;
    },
  };
}

/** How much more the wall clock went on than time did, in ms. */
function aheadOf(before: ClockReading, wallMs: number, uptimeMs: number): number {
  const passedMs = wallMs - before.wallMs;
  const isSameRun = uptimeMs >= before.uptimeMs;
  if (isSameRun) return passedMs - (uptimeMs - before.uptimeMs);
  // Started again since: it ran for as long as it is up, and may have been off.
  return passedMs > longestOffMs || passedMs < 0 ? passedMs : 0;
}
