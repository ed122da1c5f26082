import { Fault } from '../../foundation/fault.ts';

/** Limits of listings. A layer or an image that exceeds one is not listed, with a sentence that says so. */
export interface ListingLimits {
  /** Compressed bytes of a layer, and of all layers of an image that are compared. */
  readonly maxBytes: number;
  /** Bytes that a layer may unpack to. */
  readonly maxUnpackedBytes: number;
  /** Files, directories and links of a layer, and of its comparison with the layers below. */
  readonly maxEntries: number;
  /** Bytes of all paths and link targets of a layer. */
  readonly maxNameBytes: number;
  /** Time to fetch and read one layer (ms). */
  readonly maxMs: number;
  /** Time that a slow layer has while others wait (ms); a whole image has six times as much. */
  readonly awaitedMs: number;
}

export const usualListingLimits: ListingLimits = {
  maxBytes: 8 * 1024 ** 3,
  maxUnpackedBytes: 32 * 1024 ** 3,
  maxEntries: 300_000,
  maxNameBytes: 64 * 1024 ** 2,
  maxMs: 15 * 60_000,
  awaitedMs: 10_000,
};

/** No more layers of an image are compared. */
export const mostComparedLayers = 256;

// A registry that sends less keeps a reader busy for nothing.
const shortestMs = 60_000;
const slowestBytesPerMs = 100;
// What a registry must send while others wait.
const awaitedBytesPerMs = 256;
// The page looks every three seconds.
const lookMs = 30_000;
const checkMs = 250;

type Times = Pick<ListingLimits, 'maxMs' | 'awaitedMs'>;

/** The time that one layer has to be read. */
export class LayerTime implements Disposable {
  /** Aborted with a {@link Fault} when the time is over. */
  readonly signal: AbortSignal;
  readonly #timer: NodeJS.Timeout;

  /**
   * @param size bytes of the layer
   * @param bytesRead returns the bytes that were read so far
   * @param isAwaited returns true while others wait for the reader
   */
  constructor(
    size: number,
    { maxMs, awaitedMs }: Times,
    bytesRead: () => number,
    isAwaited: () => boolean,
  ) {
    const controller = new AbortController();
    this.signal = controller.signal;
    const mostMs = Math.min(maxMs, shortestMs + Math.ceil(size / slowestBytesPerMs));
    const began = performance.now();
    this.#timer = setInterval(
      () => {
        const ms = performance.now() - began;
        if (ms > mostMs) controller.abort(tooSlow(mostMs));
        const isSlow = ms > awaitedMs && bytesRead() < ms * awaitedBytesPerMs;
        if (isAwaited() && (isSlow || ms > 12 * awaitedMs)) controller.abort(slowForOthers());
      },
      Math.min(checkMs, mostMs),
    );
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }
}

/** The time of the layers of an image together. What is read is kept, so another visit continues where this one ended. */
export class ImageTime {
  readonly #awaitedMs: number;
  readonly #isAwaited: () => boolean;
  #began = performance.now();
  #lookedAt = performance.now();

  constructor({ awaitedMs }: Times, isAwaited: () => boolean) {
    this.#awaitedMs = awaitedMs;
    this.#isAwaited = isAwaited;
  }

  /** Begins to count, after the wait for a reader. Throws as {@link ImageTime.check} does. */
  begin(): void {
    this.#began = performance.now();
    this.check();
  }

  /** Records that a viewer looks at the image. */
  look(): void {
    this.#lookedAt = performance.now();
  }

  /** Throws a {@link Fault} (503) when others wait, and the image takes long or nobody looks at it any more. */
  check(): void {
    if (!this.#isAwaited()) return;
    const now = performance.now();
    if (now - this.#began > 6 * this.#awaitedMs || now - this.#lookedAt > lookMs)
      throw waitForOthers();
  }
}

function tooSlow(ms: number): Fault {
  const seconds = Math.ceil(ms / 1000);
  return new Fault('bad-request', `It cannot be read within ${seconds} s.`, { phase: 'layer' });
}

function slowForOthers(): Fault {
  const message = 'Its registry is slow, and other images wait to be read: reload the page later';
  return new Fault('unavailable', message, { phase: 'limit', retryAfterSeconds: 60 });
}

function waitForOthers(): Fault {
  const message = 'Other images wait to be read: reload the page in a minute to continue';
  return new Fault('unavailable', message, { phase: 'limit', retryAfterSeconds: 60 });
}
