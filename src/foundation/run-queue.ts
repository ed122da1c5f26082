import type { Fault } from './fault.ts';

export interface RunQueueOptions {
  /** Maximum number of waiting pieces of work. Default: no limit. */
  readonly mostWaiting?: number;
  /** Returns the error for work that finds the queue full. */
  readonly refusal?: () => Fault;
}

/**
 * Runs a limited number of pieces of work at once, in the order in which they came. Used for reads of files, whose
 * thousand answers would otherwise arrive in one turn of the event loop, for flushes of a slow disk, and for hashes of
 * passwords.
 */
export class RunQueue {
  readonly #limit: number;
  readonly #options: RunQueueOptions;
  readonly #waiting: (() => void)[] = [];
  #running = 0;
  /** Where the queue begins: shifting a long array each time would cost more than the work. */
  #first = 0;

  constructor(limit: number, options: RunQueueOptions = {}) {
    this.#limit = limit;
    this.#options = options;
  }

  /** Pieces of work that wait for their turn. */
  get waiting(): number {
    return this.#waiting.length - this.#first;
  }

  /**
   * Runs the work when its turn comes. Rejects with the error of the work, or with the refusal
   * when the queue is full.
   */
  async run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#running >= this.#limit) {
      const { mostWaiting = Number.POSITIVE_INFINITY, refusal } = this.#options;
      if (refusal && this.waiting >= mostWaiting) throw refusal();
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#waiting.push(resolve);
      await promise;
    } else {
      this.#running += 1;
    }
    try {
      return await work();
    } finally {
      this.#next();
    }
  }

  /** Passes the turn on directly, so that no new work can take it. */
  #next(): void {
    const next = this.#waiting[this.#first];
    if (!next) {
      this.#running -= 1;
      return;
    }
    this.#first += 1;
    if (this.#first === this.#waiting.length || this.#first > 1000) {
      this.#waiting.splice(0, this.#first);
      this.#first = 0;
    }
    next();
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
