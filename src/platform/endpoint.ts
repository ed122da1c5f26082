import { Fault } from '../foundation/fault.ts';

/** A platform that this server may call. */
export interface Endpoint {
  /** One spelling for each platform. Caches, limits and stored data use it as their key. */
  readonly id: string;
  /** Base URL of the platform's API, without a slash at the end. */
  readonly base: string;
  /** For messages. */
  readonly host: string;
  /** True for the platform in this process. */
  readonly isOwn: boolean;
}

/** The platforms that this server may call; it never calls another one. */
export interface Endpoints {
  /**
   * Returns the platform of an address, with or without `/api` or a slash at its end; without an address, the default
   * platform. Throws a {@link Fault} (400) for an invalid address, or for one that the operator does not allow.
   */
  resolve(address?: string): Endpoint;
  /** The listed platforms by `host[:port]`. The operator intends these, even if they are at a private address. */
  readonly hosts: readonly string[];
}

export interface EndpointsDeps {
  /** Address of the platform in this process. */
  readonly own: string;
  /** Address of the platform for requests that name none. Default: the platform in this process. */
  readonly byDefault: string | undefined;
  /** URLs, or hosts that are called over https, whatever the path. */
  readonly allow: readonly string[];
  /** Maps an address in requests to another address, or to {@link builtIn}. */
  readonly aliases: Readonly<Record<string, string>>;
}

/** Names the platform in this process where an address is expected. */
export const builtIn = 'built-in';

// Hosts that were renamed; clients in the field still send the old name.
const renamed: Readonly<Record<string, string>> = {
  'api.tower.nf': 'api.cloud.seqera.io',
  'api.stage-tower.net': 'api.cloud.stage-seqera.io',
};

const longestAddress = 2000;
const hostPattern = /^(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?$/;

/** Throws an `Error` when an address in the operator's settings is invalid or ambiguous. */
export function createEndpoints({ own, byDefault, allow, aliases }: EndpointsDeps): Endpoints {
  const ownEndpoint = { ...listed(own), isOwn: true };
  const urls = [
    ...allow.filter(entry => !isHost(entry)),
    ...(byDefault ? [byDefault] : []),
    ...Object.values(aliases).filter(target => target !== builtIn),
  ];
  // The operator writes the address of the API; a request may leave out `/api` or add it.
  const known = new Map([...urls.map(listed), ownEndpoint].map(entry => [entry.id, entry]));
  const hosts = new Set(allow.filter(isHost).map(host => listed(`https://${host}`).host));
  const aliased = new Map(
    Object.entries(aliases).map(([from, to]) => {
      const { id } = listed(from);
      if (known.has(id)) {
        throw new Error(
          `platform.aliases: ${from} is also the address of a platform: remove it from one of the two`,
        );
      }
      return [id, to === builtIn ? ownEndpoint : known.get(listed(to).id)];
    }),
  );
  const standard = byDefault ? known.get(listed(byDefault).id) : ownEndpoint;

  return {
    hosts: [...new Set([...known.values()].map(({ host }) => host)), ...hosts],

    resolve(address) {
      if (address === undefined || address === '') return standard ?? ownEndpoint;
      const named = parseAddress(address);
      if (!named) {
        throw new Fault(
          'bad-request',
          "'platformEndpoint' is not the address of a platform: expected https://host[/path]",
          { phase: 'credentials' },
        );
      }
      const found = aliased.get(named.id) ?? known.get(named.id);
      if (found) return found;
      if (named.id.startsWith('https:') && hosts.has(named.host)) return named;
      const { base } = standard ?? ownEndpoint;
      throw new Fault(
        'bad-request',
        `'platformEndpoint': this server does not use the platform ${named.host}. Set the field to ${base} or leave it out. The operator can list other platforms under platform.allow, or map an address to a platform under platform.aliases`,
        { phase: 'credentials' },
      );
    },
  };
}

/** True for a valid entry in the list of allowed platforms: a URL, or a host with or without its port. */
export function isAllowable(entry: string): boolean {
  return parseAddress(isHost(entry) ? `https://${entry}` : entry) !== undefined;
}

/** True for the address of a platform. */
export function isAddress(text: string): boolean {
  return parseAddress(text) !== undefined;
}

function isHost(entry: string): boolean {
  return hostPattern.test(entry);
}

function listed(address: string): Endpoint {
  const endpoint = parseAddress(address);
  if (!endpoint)
    throw new Error(`The address of a platform is invalid: expected https://host[/path]`);
  return endpoint;
}

function parseAddress(address: string): Endpoint | undefined {
  const url = address.length <= longestAddress ? URL.parse(address.trim()) : null;
  if (!url || (url.protocol !== 'https:' && url.protocol !== 'http:')) return undefined;
  if (url.username || url.password || url.search || url.hash) return undefined;
  const host = renamed[url.host] ?? url.host;
  // Servers treat several slashes as one. Equal addresses must be equal here too, and count together.
  const path = url.pathname.replace(/\/+/g, '/').replace(/\/$/, '');
  const base = `${url.protocol}//${host}${path}`;
  return { id: base.replace(/\/api$/, ''), base, host, isOwn: false };
}
