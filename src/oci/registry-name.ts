import { parseReference } from './reference.ts';

/**
 * Returns the canonical host of what names a registry, or a part of one: `host[:port][/path]`, with or without
 * a protocol. Returns undefined for what is not the name of a registry, such as `harbor` or `quayio`: in an image
 * name these are paths at Docker Hub, and a password for them must not go there.
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

/** The name without `https://` and spaces around it. */
export function withoutProtocol(text: string): string {
  return text.trim().replace(/^https?:\/\//i, '');
}

/** False for what URLs take for another host, as `1.2` for the address 1.0.0.2. */
function isSpelledOut(registry: string): boolean {
  if (registry.startsWith('[')) return true;
  return new URL(`https://${registry}`).hostname === registry.replace(/:\d+$/, '');
}
