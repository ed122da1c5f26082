import type { OwnHosts } from '../../../http/index.ts';
import type { Config } from '../settings-schema.ts';

const everyAddress = new Set(['0.0.0.0', '::']);

/** Returns the hosts that the server answers to: those of its own addresses, and of `hosts`. */
export function ownHosts(
  { hosts, listen, tls, replica }: Pick<Config, 'hosts' | 'listen' | 'tls' | 'replica'>,
  publicUrl: URL,
): OwnHosts {
  const addresses = [listen, ...(tls.listen === undefined ? [] : [tls.listen])];
  const listening = addresses.map(address => new URL(`http://${address}`));
  const replicas = replica.address === undefined ? [] : [new URL(replica.address)];
  const own = [publicUrl, ...replicas, ...listening].map(({ hostname }) =>
    hostname.replace(/^\[|\]$/g, ''),
  );
  return {
    names: [...own, ...hosts.filter(host => !host.includes('/'))],
    networks: hosts.filter(host => host.includes('/')),
    hasAllAddresses: own.some(host => everyAddress.has(host)),
  };
}
