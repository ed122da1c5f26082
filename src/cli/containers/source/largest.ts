import type { ContextEntry } from '../../../contexts/context-entry.ts';

/** A directory, or a file at the top, and its size. */
export interface Share {
  readonly path: string;
  readonly bytes: number;
}

// A directory with nearly all bytes of its parent is more informative than the parent.
const nearlyAll = 0.9;

/** Returns the largest directories and files at the top of a tree, largest first; see {@link nearlyAll}. */
export function largestIn(entries: readonly ContextEntry[], count: number): Share[] {
  const sizes = new Map<string, number>();
  for (const { path, kind, size } of entries) {
    if (kind !== 'file') continue;
    const parts = path.split('/');
    for (let depth = 1; depth <= parts.length; depth += 1) {
      const name = `${parts.slice(0, depth).join('/')}${depth < parts.length ? '/' : ''}`;
      sizes.set(name, (sizes.get(name) ?? 0) + size);
    }
  }
  const shares = [...sizes].map(([path, bytes]) => ({ path, bytes }));
  // Not Map.groupBy, which Node 20 lacks.
  const below = new Map<string, Share[]>();
  for (const share of shares) {
    const directory = share.path.replace(/[^/]+\/?$/, '');
    below.set(directory, [...(below.get(directory) ?? []), share]);
  }
  const deepest = (share: Share): Share => {
    const child = (below.get(share.path) ?? []).find(
      ({ path, bytes }) => path.endsWith('/') && bytes >= share.bytes * nearlyAll,
    );
    return child ? deepest(child) : share;
  };
  return (below.get('') ?? [])
    .map(deepest)
    .sort((one, other) => other.bytes - one.bytes)
    .slice(0, count);
}
