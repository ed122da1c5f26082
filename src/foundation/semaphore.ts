import type { Fault } from './fault.ts';

export interface SemaphoreOptions {
  /** What all keys together hold at most. Default: no limit. */
  readonly limit?: number;
  /** What one key holds at most. Default: no limit. */
  readonly perKey?: number;
  /** Maximum number of callers that wait, of all keys and of one key. Default: no limit. */
  readonly mostWaiting?: number;
  readonly mostWaitingPerKey?: number;
  /** Returns the error for a caller that finds no place to wait, or whose turn does not come in time. */
  readonly refusal?: (place: Place) => Fault;
  /** Callers of low priority. Default: what they hold has no limit of its own, and they may wait for ever. */
  readonly low?: LowPriority;
  /** Returns the time in ms, by a clock that nobody sets. */
  readonly now?: (() => number) | undefined;
}

export interface LowPriority {
  /** What callers of low priority together hold at most. */
  readonly limit: number;
  /**
   * So many callers of high priority pass. Then one of low priority gets a permit, if they wait and hold none. It is not before so
   * many times the time that the last one of low priority held its permit.
   */
  readonly passedBy: number;
}

/** A caller that waits. */
export interface Place {
  /** The caller in whose name it waits: keys take turns. Default: all callers have the same key. */
  readonly key?: string | undefined;
  /** How much of the limits it takes; all of the limit for a larger number. Default: 1. */
  readonly weight?: number;
  /** True to go after all callers of high priority. Default: false. */
  readonly isLow?: boolean;
  /** Aborted when the caller leaves. It has no effect on a permit that was given. */
  readonly signal?: AbortSignal | undefined;
  /** How long it waits (ms). Default: for ever. */
  readonly waitMs?: number | undefined;
}

/** A permit; disposing of it returns it, once. */
export type Permit = Disposable;

const unlimited = Number.POSITIVE_INFINITY;

/**
 * A limited number of permits. A free one goes to the key that holds the fewest; equal keys take turns, and callers of one key are
 * served in the order in which they came. A caller that takes much is not overtaken by others that would fit. A permit is passed on
 * directly: no new caller takes it from one that waits.
 *
 * The number of callers that wait costs no time. While some wait, each permit that is returned looks at all keys that wait or hold one.
 */
export class Semaphore {
  readonly #options: SemaphoreOptions;
  readonly #high: Lines;
  readonly #low: Lines;
  readonly #limit: number;
  readonly #passedBy: number;
  readonly #now: () => number;
  #held = 0;
  #waiting = 0;
  /** Callers of high priority that were served while others waited and held nothing. */
  #passed = 0;
  /** When callers of low priority may be served before others. */
  #passingAt = Number.NEGATIVE_INFINITY;

  constructor(options: SemaphoreOptions) {
    const { limit = unlimited, perKey = unlimited, low, now = () => performance.now() } = options;
    this.#options = options;
    this.#limit = limit;
    this.#high = new Lines(unlimited, perKey);
    this.#low = new Lines(low?.limit ?? unlimited, perKey);
    this.#passedBy = low?.passedBy ?? unlimited;
    this.#now = now;
  }

  /** Number of callers that wait. */
  get waiting(): number {
    return this.#waiting;
  }

  /** Resolves with a permit when its turn has come. Rejects with the reason of the signal, and with the refusal. */
  async take(place: Place = {}): Promise<Permit> {
    const held = this.#enter(place) ?? (await this.#wait(place));
    let isOver = false;
    return {
      [Symbol.dispose]: () => {
        if (!isOver) this.#giveBack(held);
        isOver = true;
      },
    };
  }

  /** Runs the work with a permit. Rejects like {@link take}, and with the error of the work. */
  async run<T>(work: () => Promise<T>, place: Place = {}): Promise<T> {
    const held = this.#enter(place) ?? (await this.#wait(place));
    try {
      return await work();
    } finally {
      this.#giveBack(held);
    }
  }

  /** Takes what is free at once if nobody waits. */
  #enter({ key = '', weight = 1, isLow, signal }: Place): Held | undefined {
    signal?.throwIfAborted();
    if (this.#waiting > 0) return undefined;
    const line = (isLow ? this.#low : this.#high).lineOf(key);
    const amount = this.#amountOf(weight);
    if (line.fits(amount) && amount <= this.#limit - this.#held) return this.#hold(line, amount);
    return undefined;
  }

  #amountOf(weight: number): number {
    // A limit of 0 admits nobody.
    return Math.min(weight, this.#limit, this.#options.perKey ?? unlimited) || weight;
  }

  #hold(line: Line, amount: number): Held {
    this.#held += amount;
    line.lines.held += amount;
    line.held += amount;
    return { line, amount, began: line.lines === this.#low ? this.#now() : 0 };
  }

  #giveBack({ line, amount, began }: Held): void {
    this.#held -= amount;
    line.lines.giveBack(line, amount);
    if (line.lines === this.#low) {
      const now = this.#now();
      this.#passingAt = now + this.#passedBy * (now - began);
    }
    this.#serve();
  }

  async #wait(place: Place): Promise<Held> {
    const { key = '', weight = 1, isLow, signal, waitMs } = place;
    const { mostWaiting = unlimited, mostWaitingPerKey = unlimited, refusal } = this.#options;
    const { promise, resolve, reject } = Promise.withResolvers<Held>();
    const line = (isLow ? this.#low : this.#high).lineOf(key);
    const waiter: Waiter = { amount: this.#amountOf(weight), admit: resolve };
    line.add(waiter);
    this.#waiting += 1;
    // Behind others of its key, its turn has not come.
    if (line.first === waiter) this.#serve();
    /** Leaves unless it was served. */
    const leave = (reason: unknown): void => {
      if (!line.remove(waiter)) return;
      line.lines.forgetUnused(line);
      this.#waiting -= 1;
      reject(reason);
      // It may have been too heavy, and those behind it are not.
      this.#serve();
    };
    const refuse = () => leave(refusal?.(place) ?? new Error('no turn came in time'));
    if (this.#waiting > mostWaiting || line.waiting > mostWaitingPerKey) refuse();
    if (!signal && waitMs === undefined) return promise;
    const timer = waitMs === undefined ? undefined : setTimeout(refuse, waitMs);
    const abort = () => leave(signal?.reason);
    signal?.addEventListener('abort', abort);
    try {
      return await promise;
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener('abort', abort);
    }
  }

  /** Gives what is free to the callers whose turn it is. */
  #serve(): void {
    while (this.#waiting > 0 && this.#held < this.#limit) {
      const high = this.#high.next();
      const low = this.#low.next();
      const isLeftOut = low !== undefined && this.#low.held === 0;
      const mayPass = isLeftOut && this.#passed >= this.#passedBy && this.#now() >= this.#passingAt;
      const line = mayPass ? low : (high ?? low);
      const waiter = line?.first;
      if (!line || !waiter || waiter.amount > this.#limit - this.#held) return;
      this.#passed = isLeftOut && line === high ? this.#passed + 1 : 0;
      line.remove(waiter);
      this.#waiting -= 1;
      waiter.admit(this.#hold(line, waiter.amount));
    }
  }
}

/** What was given to a caller. */
interface Held {
  readonly line: Line;
  readonly amount: number;
  /** When it was given (ms), for callers of low priority. */
  readonly began: number;
}

interface Waiter {
  readonly amount: number;
  readonly admit: (held: Held) => void;
  before?: Waiter | undefined;
  after?: Waiter | undefined;
}

/**
 * The callers of one key that wait. They form a chain: shifting an array of thousands, or finding the first entry of a set from which
 * thousands were removed, takes longer than the work.
 */
class Line {
  readonly lines: Lines;
  readonly key: string;
  /** What the key holds. */
  held = 0;
  waiting = 0;
  first: Waiter | undefined;
  #last: Waiter | undefined;

  constructor(lines: Lines, key: string) {
    this.lines = lines;
    this.key = key;
  }

  /** Returns true if the key may hold so much more, whatever others hold. */
  fits(amount: number): boolean {
    const { limit, perKey, held } = this.lines;
    return held + amount <= limit && this.held + amount <= perKey;
  }

  add(waiter: Waiter): void {
    waiter.before = this.#last;
    if (this.#last) this.#last.after = waiter;
    else this.first = waiter;
    this.#last = waiter;
    this.waiting += 1;
  }

  /** Returns false for a caller that does not wait any more. */
  remove(waiter: Waiter): boolean {
    const { before, after } = waiter;
    if (this.first !== waiter && !before) return false;
    if (before) before.after = after;
    else this.first = after;
    if (after) after.before = before;
    else this.#last = before;
    waiter.before = undefined;
    this.waiting -= 1;
    return true;
  }
}

/** The keys of one priority. */
class Lines {
  readonly limit: number;
  readonly perKey: number;
  /** What they hold together. */
  held = 0;
  /** In the order of their turns: a key that returns a permit goes to the end, and so does a new key. */
  readonly #lines = new Map<string, Line>();

  constructor(limit: number, perKey: number) {
    this.limit = limit;
    this.perKey = perKey;
  }

  lineOf(key: string): Line {
    const known = this.#lines.get(key);
    if (known) return known;
    const line = new Line(this, key);
    this.#lines.set(key, line);
    return line;
  }

  /** Returns the key whose turn it is; undefined if none may have a permit. */
  next(): Line | undefined {
    let best: Line | undefined;
    for (const line of this.#lines.values()) {
      if (!line.first || !line.fits(line.first.amount)) continue;
      if (!best || line.held < best.held) best = line;
    }
    return best;
  }

  giveBack(line: Line, amount: number): void {
    this.held -= amount;
    line.held -= amount;
    if (this.#lines.size > 1) {
      this.#lines.delete(line.key);
      this.#lines.set(line.key, line);
    }
    this.forgetUnused(line);
  }

  /** The only key stays: to make it again for each caller would take most of the time of a permit. */
  forgetUnused({ key, held, waiting }: Line): void {
    if (held === 0 && waiting === 0 && this.#lines.size > 1) this.#lines.delete(key);
  }
}

/**
 * Works on each item, on at most so many at once, and takes the next item only when one of them may begin. Rejects with
 * the first failure once the begun work has ended; no work begins after a failure.
 */
export async function workOnEach<T>(
  items: AsyncIterable<T> | Iterable<T>,
  atOnce: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const running = new Set<Promise<void>>();
  let failure: { readonly error: unknown } | undefined;
  try {
    for await (const item of items) {
      // It may have come while the items were awaited.
      if (failure) break;
      const one = work(item)
        .catch(error => {
          failure ??= { error };
        })
        .finally(() => running.delete(one));
      running.add(one);
      if (running.size >= atOnce) await Promise.race(running);
      if (failure) break;
    }
  } finally {
    await Promise.all(running);
  }
  if (failure) throw failure.error;
}
