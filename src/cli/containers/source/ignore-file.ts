import { posix } from 'node:path';

/**
 * Returns the patterns in a .dockerignore as a builder normalizes them: without comments, spaces, `./` and a leading `/`. Source: github.com/moby/patternmatcher, ignorefile.
 */
export function readIgnoreFile(text: string): string[] {
  return text
    .replace(/^\ufeff/, '')
    .split('\n')
    .filter(line => !line.startsWith('#'))
    .map(line => line.trim())
    .filter(line => line !== '')
    .map(line => (line.startsWith('!') ? `!${clean(line.slice(1).trim())}` : clean(line)));
}

function clean(pattern: string): string {
  if (pattern === '') return '';
  const path = posix.normalize(pattern);
  return path.length > 1 ? path.replace(/^\//, '').replace(/(?<=.)\/$/, '') : path;
}
