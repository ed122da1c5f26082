import type { IncomingMessage } from 'node:http';

/** Counts the requests in progress that may change something. */
export interface Changes {
  /** Counts the request until the work ends, unless it only reads. */
  during(request: Pick<IncomingMessage, 'method'>, work: Promise<void>): Promise<void>;
  /** Resolves when none is in progress. */
  settled(): Promise<void>;
}

export function createChanges(): Changes {
  let running = 0;
  let settled = Promise.withResolvers<void>();
  return {
    async during({ method }, work) {
      if (method === 'GET' || method === 'HEAD') return work;
      running += 1;
      try {
        await work;
      } finally {
        running -= 1;
        if (running === 0) {
          settled.resolve();
          settled = Promise.withResolvers();
        }
      }
    },
    settled: async () => (running === 0 ? undefined : settled.promise),
  };
}
