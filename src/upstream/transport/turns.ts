import { Fault } from '../../foundation/fault.ts';
import { WireError } from '../wire/wire-error.ts';

interface Waiting {
  readonly admit: () => void;
}

const retryAfterSeconds = 5;

/** Returns the fault when no turn came within `waitMs`. */
type Busy = (name: string, limit: number, waitMs: number) => Fault;

/** Admits a limited number of users for each name; the others wait, first come first served. */
export class Turns {
  readonly #limit: number;
  readonly #active = new Map<string, number>();
  readonly #waiting = new Map<string, Set<Waiting>>();

  readonly #busy: Busy;

  constructor(limit: number, busy: Busy = busyUpstream) {
    this.#limit = limit;
    this.#busy = busy;
  }

  /**
   * Resolves with a function that ends the turn; further calls of that function do nothing. Rejects with a
   * {@link Fault} (503) when no turn came within `waitMs`, and with {@link WireError} `aborted` when the signal aborts
   * first.
   */
  async take(name: string, waitMs: number, signal?: AbortSignal): Promise<() => void> {
    if ((this.#active.get(name) ?? 0) >= this.#limit) await this.#wait(name, waitMs, signal);
    else this.#active.set(name, (this.#active.get(name) ?? 0) + 1);
    let isOver = false;
    return () => {
      if (!isOver) this.#leave(name);
      isOver = true;
    };
  }

  async #wait(name: string, waitMs: number, signal: AbortSignal | undefined): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const queue = this.#waiting.get(name) ?? new Set();
    this.#waiting.set(name, queue);
    const own = { admit: resolve };
    queue.add(own);
    const timer = setTimeout(() => reject(this.#busy(name, this.#limit, waitMs)), waitMs);
    const abort = () =>
      reject(new WireError('aborted', 'the request was given up', { cause: signal?.reason }));
    signal?.addEventListener('abort', abort, { once: true });
    try {
      await promise;
    } catch (error) {
      // Its turn may have come at the same moment.
      if (!queue.delete(own)) this.#leave(name);
      throw error;
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener('abort', abort);
      if (queue.size === 0 && this.#waiting.get(name) === queue) this.#waiting.delete(name);
    }
  }

  /** Passes the turn to the user that has waited longest. */
  #leave(name: string): void {
    const queue = this.#waiting.get(name);
    const [next] = queue ?? [];
    if (queue && next) {
      queue.delete(next);
      next.admit();
      return;
    }
    const left = (this.#active.get(name) ?? 1) - 1;
    if (left > 0) this.#active.set(name, left);
    else this.#active.delete(name);
  }
}

function busyUpstream(name: string, limit: number, waitMs: number): Fault {
  return new Fault(
    'unavailable',
    `${limit} transfers from ${name} are in progress, and none finished within ${waitMs} ms: try again, or ask the operator to raise upstream.connections`,
    { phase: 'upstream', retryAfterSeconds },
  );
}
