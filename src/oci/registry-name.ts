import { parseReference } from './reference.ts';

/**
 * Returns the canonical host in the name of a registry or of a part of it: `host[:port][/path]`, with or without
 * a protocol. Returns undefined for names such as `harbor` or `quayio`: in an image name they are paths at Docker
 * Hub, and a password for them must not be sent there.
 */
export function registryHost(text: string): string | undefined {
  const [host = ''] = withoutProtocol(text).split('/');
  if (!/[.:]/.test(host) && host.toLowerCase() !== 'localhost') return undefined;
  try {
    const { registry } = parseReference(`${host.toLowerCase()}/x/x`);
    return isSpelledOut(registry) ? registry : undefined;
  } catch {
    return undefined;
  }
}

/** Returns the name without `https://` and surrounding spaces. */
export function withoutProtocol(text: string): string {
  return text.trim().replace(/^https?:\/\//i, '');
}

/**
 * Returns the name of a registry or of a part of it without the protocol, and without the version of the registry API
 * where the name is an address of that API: `https://HOST/v2/`.
 */
export function withoutApi(text: string): string {
  const name = withoutProtocol(text);
  const isAddress = name !== text.trim() || name.endsWith('/');
  return isAddress ? name.replace(/^([^/]+)\/v[12]\/*$/, '$1') : name;
}

/** Returns false for a host that URLs rewrite, such as `1.2`, which becomes 1.0.0.2. */
function isSpelledOut(registry: string): boolean {
  if (registry.startsWith('[')) return true;
  return new URL(`https://${registry}`).hostname === registry.replace(/:\d+$/, '');
}
