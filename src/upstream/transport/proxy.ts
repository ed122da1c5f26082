import { BlockList, isIP } from 'node:net';
import { basicHeader } from '../credentials.ts';
import type { HttpProxy } from '../wire/proxy-route.ts';

/** Returns the proxy for an address; undefined for a direct connection. */
export type ProxyFor = (url: URL) => HttpProxy | undefined;

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Reads `HTTPS_PROXY` and `HTTP_PROXY`, for addresses of that protocol, and `NO_PROXY`; each also in lower case.
 * Throws an `Error` that names the variable, without its value, which may hold a password.
 */
export function readProxies(environment: Environment): ProxyFor {
  const proxies: Readonly<Record<string, HttpProxy | undefined>> = {
    'https:': readProxy(environment, 'HTTPS_PROXY'),
    'http:': readProxy(environment, 'HTTP_PROXY'),
  };
  const isDirect = readExceptions(variableOf(environment, 'NO_PROXY'));
  return url => {
    const proxy = proxies[url.protocol];
    return proxy === undefined || isDirect(url) ? undefined : proxy;
  };
}

function variableOf(environment: Environment, name: string): string {
  return (environment[name] || environment[name.toLowerCase()] || '').trim();
}

function readProxy(environment: Environment, name: string): HttpProxy | undefined {
  const value = variableOf(environment, name);
  if (value === '') return undefined;
  const text = /^[a-z][a-z0-9+.-]*:\/\//i.test(value) ? value : `http://${value}`;
  const url = URL.parse(text);
  if (!url || !['http:', 'https:'].includes(url.protocol) || url.hostname === '') {
    throw new Error(`${name} must be the http or https URL of a proxy: http://proxy.example:3128`);
  }
  return { url: new URL(url.origin), authorization: loginOf(url, name) };
}

function loginOf({ username, password }: URL, name: string): string | undefined {
  if (username === '') return undefined;
  try {
    return basicHeader(decodeURIComponent(username), decodeURIComponent(password));
  } catch {
    throw new Error(`${name} has a malformed name or password: write '%' as '%25'`);
  }
}

/**
 * Parses entries separated by commas: `*`, a host name (which also matches names below it), an address, a network such
 * as `10.0.0.0/8`. A name or address may have a port.
 */
function readExceptions(text: string): (url: URL) => boolean {
  const entries = text
    .toLowerCase()
    .split(/[\s,]+/)
    .filter(entry => entry !== '');
  if (entries.includes('*')) return () => true;
  const networks = new BlockList();
  const names: { readonly name: string; readonly port: string | undefined }[] = [];
  for (const entry of entries) {
    const [, network = '', prefix] = /^([0-9a-f.:]+)\/(\d{1,3})$/.exec(entry) ?? [];
    const family = isIP(network);
    if (family !== 0 && Number(prefix) <= (family === 4 ? 32 : 128)) {
      networks.addSubnet(network, Number(prefix), family === 4 ? 'ipv4' : 'ipv6');
      continue;
    }
    const [, bracketed, port] = /^(.*?)(?::(\d+))?$/.exec(entry) ?? [];
    const name = isIP(entry) !== 0 ? entry : (bracketed ?? '').replace(/^\[|\]$/g, '');
    names.push({ name: name.replace(/^\*?\./, ''), port: isIP(entry) !== 0 ? undefined : port });
  }
  return url => {
    const host = url.hostname.toLowerCase().replace(/^\[|\]$/g, '');
    const port = url.port || (url.protocol === 'https:' ? '443' : '80');
    const family = isIP(host);
    if (family !== 0 && networks.check(host, family === 4 ? 'ipv4' : 'ipv6')) return true;
    return names.some(
      entry =>
        (entry.port === undefined || entry.port === port) &&
        (host === entry.name || (family === 0 && host.endsWith(`.${entry.name}`))),
    );
  };
}
