import type { LookupAddress } from 'node:dns';
import { lookup as systemLookup } from 'node:dns/promises';
import { isIP } from 'node:net';
import { boundedCache } from '../../foundation/bounded-cache.ts';
import { Fault } from '../../foundation/fault.ts';
import { Semaphore } from '../../foundation/semaphore.ts';
import { SingleFlight } from '../../foundation/single-flight.ts';

/** Finds the addresses of host names. */
export interface Names {
  /**
   * Returns all addresses of the name, in the system's order. Rejects with the error of the lookup, and with a
   * {@link Fault} (504) when the name server is too slow for a name that was not found before.
   */
  addressesOf(hostname: string): Promise<readonly LookupAddress[]>;
}

interface Known {
  readonly addresses: readonly LookupAddress[];
  /** ms, of `performance.now`. */
  readonly at: number;
}

export interface NamesDeps {
  readonly lookup?: (hostname: string) => Promise<readonly LookupAddress[]>;
  readonly now?: () => number;
  /** Longest wait for a new response while an older one is available, and for a turn to query (ms). */
  readonly patienceMs?: number;
}

// The records of most registries allow this.
const freshMs = 30_000;
const staleMs = 3_600_000;
const mostNames = 1000;
// The system's resolver has two threads. A name whose server is silent holds a thread for 20 s and cannot be cancelled.
// One thread is reserved for names that were found before: the registries in use.
const newNamesAtOnce = 1;
const mostWaiting = 100;

export function createNames(deps: NamesDeps = {}): Names {
  const { lookup = name => systemLookup(name, { all: true }), now = () => performance.now() } =
    deps;
  const { patienceMs = 10_000 } = deps;
  const known = boundedCache<string, Known>(mostNames);
  const asking = new SingleFlight<readonly LookupAddress[]>();
  const newNames = new Semaphore({
    limit: newNamesAtOnce,
    mostWaiting,
    refusal: ({ key = '' }) => tooSlow(key),
  });

  const ask = async (hostname: string): Promise<readonly LookupAddress[]> => {
    const addresses = await lookup(hostname);
    known.set(hostname, { addresses, at: now() });
    return addresses;
  };
  const askInTurn = (hostname: string): Promise<readonly LookupAddress[]> =>
    known.has(hostname)
      ? ask(hostname)
      : newNames.run(() => ask(hostname), { key: hostname, waitMs: patienceMs });

  return {
    async addressesOf(hostname) {
      const family = isIP(hostname);
      if (family !== 0) return [{ address: hostname, family }];
      const found = known.get(hostname);
      if (found && now() - found.at < freshMs) return found.addresses;
      const response = asking.run(() => askInTurn(hostname), { key: hostname });
      if (!found || now() - found.at > staleMs) return within(response, 2 * patienceMs, hostname);
      return within(response, patienceMs / 5, hostname).catch(() => found.addresses);
    },
  };
}

async function within<T>(response: Promise<T>, ms: number, hostname: string): Promise<T> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => late.reject(tooSlow(hostname)), ms);
  try {
    return await Promise.race([response, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}

function tooSlow(hostname: string): Fault {
  return new Fault(
    'upstream-timeout',
    `The name '${hostname}' could not be looked up in time: try again, or ask the operator to check the name servers`,
    { phase: 'upstream' },
  );
}
