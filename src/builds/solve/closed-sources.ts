import type { SourceRule } from '../../buildkit/index.ts';
import { closedNetworks } from '../../upstream/transport/index.ts';

/** Rejects what a build would fetch over HTTP, from git or from a client: a generated build has all of its files. */
export const noSources: SourceRule = { action: 'deny', pattern: '^(?:https?|git|oci-layout)://' };

/**
 * Returns the rules for what ADD fetches over HTTP and from git. They reject closed addresses and registries that may
 * have one. The network of the builder rejects names that resolve to a closed address.
 *
 * @param registries hosts that are listed as registries: builds get images from them, but no files
 * @param privateHosts hosts, with a port or for all ports, that are open although their address is closed
 * @param ownHost host of this server, with its port: lock files of its builds recreate the same environment
 */
export function closedSourceRules(
  registries: readonly string[],
  privateHosts: readonly string[],
  ownHost: string,
): SourceRule[] {
  const rule = (action: SourceRule['action'], host: string, path = '(?:[/?#]|$)'): SourceRule => ({
    action,
    pattern: `(?i)^(?:https?|git)://(?:[^/?#]*@)?${host}${path}`,
  });
  const anyPort = '(?::\\d+)?';
  const networks = closedNetworks.map(([network, prefix]) => networkPattern(network, prefix));
  return [
    rule('deny', `(?:${networks.join('|')})${anyPort}`),
    // The network of the builder has no IPv6.
    rule('deny', `\\[[^\\]]*\\]${anyPort}`),
    rule('deny', `(?:[^/?#]*\\.)?localhost\\.?${anyPort}`),
    ...registries.map(host => rule('deny', hostPattern(host))),
    ...privateHosts.map(host => rule('allow', hostPattern(host))),
    rule(
      'allow',
      hostPattern(ownHost),
      '/v1alpha1/builds/[0-9a-f_]+/(?:condalock|lock(?:\\?format=explicit)?)$',
    ),
  ];
}

function hostPattern(host: string): string {
  const escaped = host.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
  const [, port] = /:(\d+)$/.exec(host) ?? [];
  if (port === undefined) return `${escaped}(?::\\d+)?`;
  // A default port is optional.
  return port === '443' || port === '80' ? escaped.replace(/:(\d+)$/, '(?::$1)?') : escaped;
}

/** Returns a pattern for the addresses of a network in their usual notation. */
function networkPattern(network: string, prefix: number): string {
  const octets = network.split('.').map(Number);
  const patterns = octets.map((octet, index) => {
    const bits = Math.min(8, Math.max(0, prefix - index * 8));
    if (bits === 8) return String(octet);
    if (bits === 0) return '\\d{1,3}';
    const count = 2 ** (8 - bits);
    return `(?:${Array.from({ length: count }, (_, more) => octet + more).join('|')})`;
  });
  return patterns.join('\\.');
}
