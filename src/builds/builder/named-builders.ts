import { promises as dns, type LookupAddress } from 'node:dns';
import { parseAddress } from '../../buildkit/index.ts';
import { atMost } from '../../foundation/work.ts';

/** Builders behind one DNS name, such as that of a headless service of Kubernetes. */
export interface BuilderName {
  readonly host: string;
  readonly port: number;
}

/** Returns the addresses of a host, in any order. */
export type LookUp = (
  host: string,
) => Promise<readonly Pick<LookupAddress, 'address' | 'family'>[]>;

/** Returns the addresses that a configured address stands for now. One that is not a name stands for itself. */
export type AddressesOf = (configured: string) => Promise<readonly string[]>;

interface Lookup {
  readonly at: number;
  readonly ended: Promise<void>;
  isRunning: boolean;
}

const scheme = 'dns+tcp://';
// A builder that has started is used within this time, and one that is stopping gets no more builds.
const believedMs = 5000;
const mostAddresses = 500;
// A build that has a builder does not wait for a name service that hangs.
const patienceMs = 2000;

/** Parses `dns+tcp://name:port`; undefined for other addresses. Throws a `TypeError` for a malformed one. */
export function parseBuilderName(text: string): BuilderName | undefined {
  if (!text.startsWith(scheme)) return undefined;
  const address = parseAddress(`tcp://${text.slice(scheme.length)}`);
  return address.kind === 'tcp' ? address : undefined;
}

/**
 * Finds the builders behind names. Each address of a name is one builder.
 *
 * @param lookUp Default: as the system does it, with its search domains and its `hosts` file
 */
export function createAddressesOf(
  lookUp: LookUp = host => dns.lookup(host, { all: true }),
  now: () => number = () => performance.now(),
): AddressesOf {
  const lookups = new Map<string, Lookup>();
  const known = new Map<string, readonly string[]>();

  const ask = async (configured: string, { host, port }: BuilderName): Promise<void> => {
    try {
      const found = await lookUp(host);
      const addresses = found
        .map(({ address, family }) => `tcp://${family === 6 ? `[${address}]` : address}:${port}`)
        .sort()
        .slice(0, mostAddresses);
      known.set(configured, addresses);
    } catch (error) {
      // A name service that fails takes away no builder. One that answers that the name has no address does.
      const code = (error as NodeJS.ErrnoException).code ?? '';
      if (['ENOTFOUND', 'ENODATA'].includes(code)) known.delete(configured);
    }
  };

  const start = (configured: string, name: BuilderName): Lookup => {
    const ended = ask(configured, name).finally(() => {
      lookup.isRunning = false;
    });
    const lookup = { at: now(), ended, isRunning: true };
    lookups.set(configured, lookup);
    return lookup;
  };

  return async configured => {
    const name = parseBuilderName(configured);
    if (!name) return [configured];
    const last = lookups.get(configured);
    const isRecent = last && (last.isRunning || now() - last.at < believedMs);
    const { ended } = isRecent ? last : start(configured, name);
    await atMost(patienceMs, ended);
    // The connection to a name without an address fails with the reason.
    return known.get(configured) ?? [`tcp://${name.host}:${name.port}`];
  };
}
