import type { Sharer, Shares } from './shares.ts';

/** A permit to run; disposing of it returns it. */
export type Permit = Disposable;

/** A limited number of permits. Each owner has its own queue for them. */
export interface Permits {
  /** Rejects with the signal's reason when it is aborted while waiting. */
  take(sharer: Sharer, signal: AbortSignal): Promise<Permit>;
}

// Where users always wait, they get so many times the builds and the time of strangers.
const usersForStranger = 8;

/**
 * Creates permits. A free permit goes to a waiting user, or to a stranger where no user waits. Among users, and among
 * strangers, it goes to the owner that holds the fewest; equal owners take turns. An owner with fifty builds does not
 * delay an owner with one.
 *
 * Strangers together hold at most their share. Users who always wait do not keep them out for ever: while strangers wait
 * and hold no permit, they get one after eight that users got, but not before eight times the time that the last one of a
 * stranger was held.
 *
 * @param now the time in ms, by a clock that nobody sets
 */
export function createPermits(
  { inAll, ofOne, ofStrangers }: Shares,
  now: () => number = () => performance.now(),
): Permits {
  const users = new Lines(inAll, ofOne);
  const strangers = new Lines(ofStrangers, ofOne);
  let free = inAll;
  /** Permits that users got while strangers waited and held none. */
  let usersInRow = 0;
  /** When strangers who wait may pass users. */
  let passingAt = Number.NEGATIVE_INFINITY;

  /** Gives free permits to the owners whose turn it is. */
  const serve = (): void => {
    while (free > 0) {
      const user = users.next();
      const stranger = strangers.next();
      const isLeftOut = strangers.held === 0 && stranger !== undefined;
      const mayPass = isLeftOut && usersInRow >= usersForStranger && now() >= passingAt;
      const turn = mayPass ? stranger : (user ?? stranger);
      if (!turn) return;
      usersInRow = isLeftOut && turn === user ? usersInRow + 1 : 0;
      turn();
    }
  };

  return {
    async take({ owner, isTrusted }, signal) {
      signal.throwIfAborted();
      const lines = isTrusted ? users : strangers;
      const { promise, resolve, reject } = Promise.withResolvers<Permit>();
      const leaveLine = lines.join(owner, () => {
        free -= 1;
        const began = now();
        let isGiven = false;
        resolve({
          [Symbol.dispose]() {
            if (isGiven) return;
            isGiven = true;
            free += 1;
            lines.giveBack(owner);
            if (!isTrusted) passingAt = now() + usersForStranger * (now() - began);
            serve();
          },
        });
      });
      const leave = () => {
        if (leaveLine()) reject(signal.reason);
      };
      signal.addEventListener('abort', leave, { once: true });
      serve();
      return promise.finally(() => signal.removeEventListener('abort', leave));
    },
  };
}

interface Line {
  readonly waiting: Set<() => void>;
  held: number;
}

/** The queues of several owners. */
class Lines {
  /** Permits that all these owners hold. */
  held = 0;
  readonly #most: number;
  readonly #ofOne: number;
  /** In the order of their turns: an owner that returns a permit goes to the end, and so does a new owner. */
  readonly #lines = new Map<string, Line>();

  constructor(most: number, ofOne: number) {
    this.#most = most;
    this.#ofOne = ofOne;
  }

  /** Enters a queue. Returns a function that leaves it, which returns false for a caller that was served. */
  join(owner: string, onTurn: () => void): () => boolean {
    const line = this.#lines.get(owner) ?? { waiting: new Set(), held: 0 };
    this.#lines.set(owner, line);
    line.waiting.add(onTurn);
    return () => {
      if (!line.waiting.delete(onTurn)) return false;
      if (line.waiting.size === 0 && line.held === 0) this.#lines.delete(owner);
      return true;
    };
  }

  /** Returns the function that serves the caller whose turn it is; undefined if none may have a permit. */
  next(): (() => void) | undefined {
    if (this.held >= this.#most) return undefined;
    let best: Line | undefined;
    for (const line of this.#lines.values()) {
      if (line.waiting.size === 0 || line.held >= this.#ofOne) continue;
      if (best === undefined || line.held < best.held) best = line;
    }
    const [first] = best?.waiting ?? [];
    if (!best || !first) return undefined;
    const line = best;
    return () => {
      line.waiting.delete(first);
      line.held += 1;
      this.held += 1;
      first();
    };
  }

  giveBack(owner: string): void {
    const line = this.#lines.get(owner);
    if (!line) return;
    this.held -= 1;
    line.held -= 1;
    this.#lines.delete(owner);
    if (line.waiting.size > 0 || line.held > 0) this.#lines.set(owner, line);
  }
}
