import { isIPv4 } from 'node:net';
import type { AccessRules } from '../../../http/index.ts';
import type { Config } from '../settings-schema.ts';

/**
 * Returns who may use what this server offers. When anonymous callers may reach the server, they build nothing by
 * default: a build runs the code that they send.
 */
export function accessRules(
  config: Pick<Config, 'access'> & Listening,
  publicUrl: URL,
): AccessRules {
  const { access } = config;
  return {
    requests: access.requests ?? 'open',
    builds: access.builds ?? (isLocal(config, publicUrl) ? 'open' : 'login'),
    pulls: access.pulls ?? 'open',
  };
}

type Listening = Pick<Config, 'listen' | 'tls' | 'trustedProxies'>;

/** Returns true for a server that only its own machine can reach. */
export function isLocal({ listen, tls, trustedProxies }: Listening, publicUrl: URL): boolean {
  const addresses = tls.listen === undefined ? [listen] : [listen, tls.listen];
  return (
    addresses.every(address => isLoopback(address.slice(0, address.lastIndexOf(':')))) &&
    isLoopback(publicUrl.hostname) &&
    trustedProxies === 0
  );
}

/** True for a host that only this machine can reach. Any name except `localhost` may be reachable from elsewhere. */
function isLoopback(host: string): boolean {
  const bare = host.replace(/^\[|\]$/g, '').toLowerCase();
  return bare === 'localhost' || bare === '::1' || (isIPv4(bare) && bare.startsWith('127.'));
}
