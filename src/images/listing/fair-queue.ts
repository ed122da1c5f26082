import type { Fault } from '../../foundation/fault.ts';

export interface FairQueueOptions {
  /** Pieces of work that run at once. */
  readonly atOnce: number;
  /** Maximum number of pieces that wait. */
  readonly mostWaiting: number;
  /** Maximum number of pieces of one asker that wait. */
  readonly mostOfOne: number;
  /** Returns the error for work that finds no place. */
  readonly refusal: () => Fault;
}

/**
 * Runs a limited number of pieces of work at once. The askers take turns, so that none of them waits for all the work of
 * another.
 */
export class FairQueue {
  readonly #options: FairQueueOptions;
  /** By asker. The first one is the next to have a turn. */
  readonly #waiting = new Map<string, (() => void)[]>();
  #count = 0;
  #running = 0;

  constructor(options: FairQueueOptions) {
    this.#options = options;
  }

  /** Pieces of work that wait for their turn. */
  get waiting(): number {
    return this.#count;
  }

  /** Runs the work when its turn comes. Rejects with the error of the work, or with the refusal. */
  async run<T>(asker: string, work: () => Promise<T>): Promise<T> {
    const { atOnce, mostWaiting, mostOfOne, refusal } = this.#options;
    if (this.#running >= atOnce) {
      const own = this.#waiting.get(asker) ?? [];
      if (own.length >= mostOfOne || this.#count >= mostWaiting) throw refusal();
      const { promise, resolve } = Promise.withResolvers<void>();
      own.push(resolve);
      this.#waiting.set(asker, own);
      this.#count += 1;
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
    const [first] = this.#waiting;
    if (!first) {
      this.#running -= 1;
      return;
    }
    const [asker, own] = first;
    const admit = own.shift();
    this.#count -= 1;
    // Behind all others.
    this.#waiting.delete(asker);
    if (own.length > 0) this.#waiting.set(asker, own);
    admit?.();
  }
}
