/** A permit to run; disposing of it returns it. */
export type Permit = Disposable;

/** A limited number of permits. Each owner has its own queue for them. */
export interface Permits {
  /** Rejects with the signal's reason when it is aborted while waiting. */
  take(owner: string, signal: AbortSignal): Promise<Permit>;
}

interface Line {
  readonly waiting: Set<() => void>;
  held: number;
}

/**
 * Creates permits. A free permit goes to the waiting owner that holds the fewest; equal owners take turns. An owner
 * with fifty builds does not delay an owner with one.
 */
export function createPermits(count: number): Permits {
  let free = count;
  // In the order of their turns: an owner that returns a permit goes to the end, and so does a new owner.
  const lines = new Map<string, Line>();

  const lineOf = (owner: string): Line => {
    const line = lines.get(owner) ?? { waiting: new Set(), held: 0 };
    lines.set(owner, line);
    return line;
  };

  const serveNext = (): void => {
    const [first, ...others] = [...lines.values()].filter(({ waiting }) => waiting.size > 0);
    if (!first) return;
    const line = others.reduce((best, one) => (one.held < best.held ? one : best), first);
    const [next] = line.waiting;
    if (!next) return;
    line.waiting.delete(next);
    next();
  };

  const hold = (owner: string, line: Line): Permit => {
    free -= 1;
    line.held += 1;
    let isGiven = false;
    return {
      [Symbol.dispose]() {
        if (isGiven) return;
        isGiven = true;
        free += 1;
        line.held -= 1;
        lines.delete(owner);
        if (line.waiting.size > 0 || line.held > 0) lines.set(owner, line);
        serveNext();
      },
    };
  };

  return {
    async take(owner, signal) {
      signal.throwIfAborted();
      const line = lineOf(owner);
      if (free > 0) return hold(owner, line);
      const { promise, resolve, reject } = Promise.withResolvers<Permit>();
      const serve = () => resolve(hold(owner, line));
      const leave = () => {
        if (!line.waiting.delete(serve)) return;
        if (line.waiting.size === 0 && line.held === 0) lines.delete(owner);
        reject(signal.reason);
      };
      signal.addEventListener('abort', leave, { once: true });
      line.waiting.add(serve);
      return promise.finally(() => signal.removeEventListener('abort', leave));
    },
  };
}
