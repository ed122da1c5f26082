import { Fault } from '../../foundation/fault.ts';
import { WireError } from '../wire/wire-error.ts';

interface Waiting {
  readonly admit: () => void;
}

const retryAfterSeconds = 5;

/** What is reported when no turn of a name came in time (ms). */
type Busy = (name: string, limit: number, waitMs: number) => Fault;

/** Admits so many users of a name at once; the others wait, first come first served. */
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
   * Resolves with what ends the turn; a second call of that does nothing. Rejects with a {@link Fault} (503) when
   * no turn came in time (ms), with {@link WireError} `aborted` when the signal aborts before.
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
      // Its turn may have come in the same moment.
      if (!queue.delete(own)) this.#leave(name);
      throw error;
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener('abort', abort);
      if (queue.size === 0 && this.#waiting.get(name) === queue) this.#waiting.delete(name);
    }
  }

  /** Gives the turn to the one that waits longest. */
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
    `${limit} transfers from ${name} are under way, and none ended within ${waitMs} ms: try again, or ask the operator to raise upstream.connections`,
    { phase: 'upstream', retryAfterSeconds },
  );
}
