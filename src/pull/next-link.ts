import { takePatterns } from '../foundation/text/take-pattern.ts';

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
