import { setMaxListeners } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { Fault } from '../../foundation/fault.ts';

/** What became of a request to a leader. `ended`: the leader has ended before its response, and may be asked again. */
export type Outcome = 'answered' | 'ended' | 'unreached';

/** The replica that leads now, as far as this one knows. */
export interface CurrentLeader {
  /** Undefined while none is known. */
  readonly address: URL | undefined;
  /** Exchanges with a replica that no longer leads end. */
  set(address: URL | undefined): void;
  /**
   * Notes that the leader has handed the lead over. Exchanges without a response end, and go to the next leader; others
   * continue.
   */
  handOver(): void;
  /** Returns a signal that ends with the lead of the replica that leads now. */
  readonly signal: AbortSignal;
  /**
   * Repeats the work with the leader of the moment until it has a response.
   *
   * @throws {@link Fault} (503) when it has not done so in time
   */
  reach(work: (address: URL) => Promise<Outcome>, isWanted: () => boolean): Promise<void>;
}

/** Why exchanges end: their leader finishes the responses that it has begun. */
export const handedOver = new Error('the leader has handed the lead over');

// A replica takes the lead within two seconds, and a leader that stops finishes its transfers first.
export const usualPatienceMs = 30_000;
const pauseMs = 200;
const retryAfterSeconds = 5;

export function createCurrentLeader(patienceMs = usualPatienceMs): CurrentLeader {
  let current: URL | undefined;
  let last: URL | undefined;
  const begin = (): AbortController => {
    const controller = new AbortController();
    // Each exchange listens to it.
    setMaxListeners(0, controller.signal);
    return controller;
  };
  let lead = begin();
  let change = Promise.withResolvers<void>();
  return {
    get address() {
      return current;
    },
    get signal() {
      return lead.signal;
    },
    set(address) {
      if (address?.href !== current?.href) {
        change.resolve();
        change = Promise.withResolvers();
      }
      current = address;
      // While nobody leads, the last leader may finish what it does.
      if (!address || address.href === last?.href) return;
      lead.abort();
      lead = begin();
      last = address;
    },
    handOver() {
      current = undefined;
      last = undefined;
      lead.abort(handedOver);
      lead = begin();
    },
    async reach(work, isWanted) {
      // A response may take long before its leader ends. Only the wait for the next leader counts.
      for (let waitedMs = 0; isWanted(); ) {
        const began = performance.now();
        const outcome = current && (await work(current));
        if (outcome === 'answered') return;
        if (outcome === 'unreached') waitedMs += performance.now() - began;
        if (waitedMs > patienceMs) throw nobodyLeads();
        const paused = performance.now();
        await Promise.race([sleep(pauseMs), change.promise]);
        waitedMs += performance.now() - paused;
      }
    },
  };
}

function nobodyLeads(): Fault {
  return new Fault(
    'unavailable',
    'No server of this site has taken the lead yet: try again in a moment',
    { phase: 'request', retryAfterSeconds },
  );
}
