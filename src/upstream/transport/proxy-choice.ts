import { isIP } from 'node:net';
import { boundedCache } from '../../foundation/bounded-cache.ts';
import { Fault } from '../../foundation/fault.ts';
import type { HttpProxy, ProxyRoute } from '../wire/proxy-route.ts';
import { type PrivateHosts, publicAddressOf } from './address-guard.ts';
import type { ProxyFor } from './proxy.ts';

/**
 * Returns the route to an address; undefined for a direct connection. Rejects with a {@link Fault} for a closed
 * address.
 */
export type ProxyRouteTo = (url: URL) => Promise<ProxyRoute | undefined>;

const addressLifeMs = 30_000;

/**
 * Chooses the route so that the address guard also works behind a proxy: looks up the name here, and gives the proxy
 * the checked address. Hosts that may have any address are passed to the proxy by name.
 *
 * @param byName true when the proxy looks up all names: then its own rules must block closed addresses
 * @param addressOf looks up the name of a URL, and rejects a closed address
 */
export function createRouteTo(
  proxyFor: ProxyFor,
  isAllowed: PrivateHosts,
  byName: boolean,
  addressOf = publicAddressOf,
): ProxyRouteTo {
  const addresses = boundedCache<string, { until: number; address: Promise<string> }>(1000);

  const checkedAddress = (url: URL): Promise<string> => {
    const now = performance.now();
    const known = addresses.get(url.host);
    if (known && known.until > now) return known.address;
    const address = addressOf(url);
    const found = { until: now + addressLifeMs, address };
    addresses.set(url.host, found);
    // The next request looks the name up again.
    address.catch(() => {
      if (addresses.get(url.host) === found) addresses.delete(url.host);
    });
    return address;
  };

  return async url => {
    const proxy = proxyFor(url);
    if (proxy === undefined) return undefined;
    const port = url.port || (url.protocol === 'https:' ? '443' : '80');
    const named = () =>
      url.protocol === 'http:'
        ? ({ kind: 'forward', proxy } as const)
        : ({ kind: 'tunnel', proxy, target: `${url.hostname}:${port}` } as const);
    if (isAllowed(url.host)) return named();
    // This also applies where the proxy looks names up: no request goes to an address that is closed from here.
    const address = await checkedAddress(url).catch(error => {
      if (error instanceof Fault) throw error;
      if (byName) return undefined;
      throw notFound(url, proxy, error);
    });
    if (byName || address === undefined) return named();
    const target = isIP(address) === 6 ? `[${address}]:${port}` : `${address}:${port}`;
    return { kind: 'tunnel', proxy, target };
  };
}

function notFound(url: URL, proxy: HttpProxy, cause: unknown): Fault {
  return new Fault(
    'upstream',
    `This server cannot resolve '${url.hostname}', so it cannot check the address before it uses the proxy ${proxy.url.host}: check the name; if only the proxy can look up names, the operator sets upstream.proxyNames`,
    { phase: 'upstream', cause },
  );
}
