import { takePatterns } from '../foundation/text.ts';

const longestQuery = 2000;

/**
 * Returns the query of the next page in the `Link` header of a registry, without `?`: its path may differ from ours. The
 * query is rewritten, because it goes into a request or a header. Undefined when there is no other page.
 */
export function nextPage(header: string | undefined): string | undefined {
  const [address = ''] = nextLink(header)?.split('#', 1) ?? [];
  const start = address.indexOf('?') + 1;
  if (start === 0 || address.length - start > longestQuery) return undefined;
  return new URLSearchParams(address.slice(start)).toString();
}

/** Characters: room for the longest address of a next page, and a few other links. */
const longestHeader = 4096;

const target = /[\s,]*<([^>]*)>/y;
const parameter = /\s*;\s*([^\s"',;=]+)(?:\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s",;]*)))?/y;

/**
 * Returns the address of the next page in a `Link` header, relative or absolute as the server wrote it; undefined
 * without one, and for a header of more than 4096 characters. Source: RFC 8288, section 3.
 */
export function nextLink(header: string | undefined): string | undefined {
  if (header === undefined || header.length > longestHeader) return undefined;
  const take = takePatterns(header);
  for (let link = take(target); link; link = take(target)) {
    let relations: string | undefined;
    for (let found = take(parameter); found; found = take(parameter)) {
      const [, name = '', quoted, bare = ''] = found;
      // The first of several counts.
      if (name.toLowerCase() === 'rel') relations ??= quoted ?? bare;
    }
    if (relations?.toLowerCase().split(/\s+/).includes('next')) return link[1];
  }
  return undefined;
}
