import { closedNetworks } from '../../../upstream/transport/index.ts';

/** An address that is open within a closed network; without a port, all its ports are open. */
export interface OpenAddress {
  readonly address: string;
  readonly port: number | undefined;
}

/** Addresses that are open, and additional addresses that are closed. */
export interface Reach {
  /** Open to the builder itself, which pulls, pushes and fetches. */
  readonly builder: readonly OpenAddress[];
  /** Also open to the steps of a build. */
  readonly steps: readonly OpenAddress[];
  /** The machine's own addresses. */
  readonly machine: readonly string[];
}

/** The user-mode network that leads out of the builder's namespace, with the addresses that slirp4netns assigns. */
export const outerNetwork = '198.18.0.0/24';
/** The address of the machine's loopback in that network. */
const loopbackGate = '198.18.0.2';
export const nameServer = '198.18.0.3';

/**
 * Returns the packet filter of the builder's network namespace, as a file for `nft -f`. It replaces the previous filter
 * atomically. Only IPv4 leads out.
 */
export function networkRules({ builder, steps, machine }: Reach): string {
  const isLoopback = ({ address }: OpenAddress) => address.startsWith('127.');
  const gates = builder.filter(isLoopback);
  const outer = builder.filter(entry => !isLoopback(entry));
  const outerForSteps = steps.filter(entry => !isLoopback(entry));
  const nets = closedNetworks.map(([network, prefix]) => `${network}/${prefix}`);
  const own = machine.filter(address => !address.includes(':'));
  const accepts = (entries: readonly OpenAddress[]) =>
    entries.map(({ address, port }) =>
      port === undefined
        ? `    ip daddr ${address} accept`
        : `    ip daddr ${address} tcp dport ${port} accept`,
    );
  const names = [
    `    ip daddr ${nameServer} udp dport 53 accept`,
    `    ip daddr ${nameServer} tcp dport 53 accept`,
  ];
  const refuse = [
    '    ip daddr @closed reject with icmpx admin-prohibited',
    '    meta nfproto ipv6 reject with icmpx admin-prohibited',
  ];
  return `${[
    'flush ruleset',
    'table inet sluice {',
    '  set closed {',
    '    type ipv4_addr',
    '    flags interval',
    '    auto-merge',
    `    elements = { ${[...nets, ...own].join(', ')} }`,
    '  }',
    '  chain output {',
    '    type filter hook output priority 0; policy accept;',
    '    ct state established,related accept',
    '    oifname "lo" accept',
    ...gates.map(({ port }) =>
      port === undefined
        ? `    ip daddr ${loopbackGate} accept`
        : `    ip daddr ${loopbackGate} tcp dport ${port} accept`,
    ),
    ...names,
    ...accepts(outer),
    ...refuse,
    '  }',
    '  chain forward {',
    '    type filter hook forward priority 0; policy drop;',
    '    ct state established,related accept',
    '    oifname != "tap0" reject with icmpx admin-prohibited',
    ...names,
    ...accepts(outerForSteps),
    ...refuse,
    '    accept',
    '  }',
    '  chain input {',
    '    type filter hook input priority 0; policy drop;',
    '    ct state established,related accept',
    '    iifname "lo" accept',
    '    reject with icmpx admin-prohibited',
    '  }',
    '}',
    'table ip sluice_nat {',
    '  chain output {',
    '    type nat hook output priority -100;',
    ...gates.map(({ port }) =>
      port === undefined
        ? `    ip daddr 127.0.0.0/8 ip protocol tcp dnat to ${loopbackGate}`
        : `    ip daddr 127.0.0.0/8 tcp dport ${port} dnat to ${loopbackGate}`,
    ),
    '  }',
    '  chain postrouting {',
    '    type nat hook postrouting priority 100;',
    '    oifname "tap0" masquerade',
    '  }',
    '}',
  ].join('\n')}\n`;
}
