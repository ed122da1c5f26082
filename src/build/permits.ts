/** So many at once; the others wait in the order in which they came. */
export interface Permits {
  /** Rejects with the signal's reason when it is aborted while waiting. */
  take(signal: AbortSignal): Promise<void>;
  give(): void;
}

export function createPermits(count: number): Permits {
  let free = count;
  const waiting = new Set<() => void>();
  return {
    async take(signal) {
      signal.throwIfAborted();
      if (free > 0) {
        free -= 1;
        return;
      }
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      const leave = () => {
        waiting.delete(resolve);
        reject(signal.reason);
      };
      signal.addEventListener('abort', leave, { once: true });
      waiting.add(resolve);
      await promise.finally(() => signal.removeEventListener('abort', leave));
    },
    give() {
      const [next] = waiting;
      if (next) {
        waiting.delete(next);
        next();
      } else {
        free += 1;
      }
    },
  };
}
