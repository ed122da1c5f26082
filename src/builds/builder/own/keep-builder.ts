import type { Logger } from '../../../foundation/telemetry.ts';
import type { OwnBuilder } from './builder-process.ts';

/** Returns true while builds run on the builder with this address. */
export type IsBusy = (address: string) => boolean;

export interface KeepBuilderOptions {
  /** Starts a builder; returns undefined where that is not possible. */
  readonly start: () => Promise<OwnBuilder | undefined>;
  /** Starts a contained builder. Throws if that fails. */
  readonly startContained: () => Promise<OwnBuilder | undefined>;
  /** Called after a failed start. */
  readonly onFailure: (error: unknown) => void;
  /** Time before a failed contained start is repeated (ms). It doubles each time, up to an hour. */
  readonly retryMs?: number | undefined;
  readonly log: Logger;
}

/** A builder of this server that is restarted when it ends. */
export interface KeptBuilder {
  /**
   * Returns the builder, and starts it if it does not run. After a failed start of the contained builder, an
   * uncontained one replaces it and builds for known callers. The contained start is then repeated: strangers wait for
   * it, others do not.
   */
  get(canWait: boolean, isBusy: IsBusy): Promise<OwnBuilder | undefined>;
  close(): Promise<void>;
}

const usualRetryMs = 2 * 60_000;
const longestRetryMs = 3_600_000;
// A build that has just found the builder is not counted yet.
const leavingMs = 10_000;

export function keepBuilder(options: KeepBuilderOptions): KeptBuilder {
  const { start, startContained, onFailure, log } = options;
  let own: Promise<OwnBuilder | undefined> | undefined;
  let retrying: Promise<void> | undefined;
  let retryMs = options.retryMs ?? usualRetryMs;
  let retryAt = Number.POSITIVE_INFINITY;
  let isClosed = false;
  // Builders that were replaced and finish their builds.
  const leaving = new Map<OwnBuilder, number>();

  const begin = (): Promise<OwnBuilder | undefined> =>
    start().then(
      builder => {
        if (builder?.mayContainLater) retryAt = performance.now() + retryMs;
        return builder;
      },
      error => {
        onFailure(error);
        return undefined;
      },
    );

  /** Returns the last builder if it still works, else a new one. */
  const current = async (): Promise<OwnBuilder | undefined> => {
    const last = own;
    const builder = await last;
    const isUseless = last && (builder === undefined || !(await isUsable(builder)));
    if (isUseless && own === last) {
      own = (async () => {
        await builder?.stop().catch(err => log.warn({ err }, 'the builder that was lost'));
        return begin();
      })();
    }
    own ??= begin();
    return own;
  };

  const retry = async (): Promise<void> => {
    try {
      const builder = await startContained();
      if (!builder) return;
      if (isClosed) return await builder.stop();
      const standIn = await own;
      own = Promise.resolve(builder);
      if (standIn) leaving.set(standIn, performance.now());
      log.info('the builder has its own network and limits now: strangers may build');
    } catch (err) {
      retryMs = Math.min(2 * retryMs, longestRetryMs);
      log.error({ err, nextTryMs: retryMs }, 'the contained builder does not start');
      retryAt = performance.now() + retryMs;
    }
  };

  const endIdle = (isBusy: IsBusy) => {
    for (const [builder, since] of leaving) {
      if (isBusy(builder.address) || performance.now() - since < leavingMs) continue;
      leaving.delete(builder);
      builder.stop().catch(err => log.warn({ err }, 'the builder that was replaced'));
    }
  };

  return {
    async get(canWait, isBusy) {
      endIdle(isBusy);
      const builder = await current();
      if (!builder?.mayContainLater) return builder;
      if (!retrying && performance.now() >= retryAt) {
        retrying = retry().finally(() => {
          retrying = undefined;
        });
      }
      if (!canWait || !retrying) return builder;
      await retrying;
      return own;
    },

    async close() {
      isClosed = true;
      // A start in progress ends with this process, or stops its builder.
      const all = [...leaving.keys(), await own];
      await Promise.all(all.map(builder => builder?.stop()));
    },
  };
}

/** Returns false for a builder that has ended or is unusable. Stops an unusable builder. */
async function isUsable(builder: OwnBuilder): Promise<boolean> {
  return !builder.hasEnded() && (await builder.isWhole());
}
