import { keySeparator, type ListedEntry } from '../records/listed-entry.ts';

/** What a layer does to a path. */
export interface LayerEvent {
  readonly key: string;
  /** Number of the layer, counted from 0. */
  readonly layer: number;
  /** What the layer has there; undefined if it removes the path. */
  readonly entry: ListedEntry | undefined;
  /** What the layers below have there. */
  readonly before: PlacedEntry | undefined;
}

export interface PlacedEntry {
  readonly entry: ListedEntry;
  readonly layer: number;
}

/** A directory in which some layers hide everything that is below them. */
interface HidingLevel {
  readonly key: string;
  /** Numbers of these layers, the lowest first. */
  readonly hides: readonly number[];
}

/**
 * Yields what the layers of an image do, path by path in the order of keys, and for one path from the lowest layer to the
 * highest. Holds one entry of each layer and the directories above the current path in memory.
 * Source: OCI image specification layer.md, Applying Changesets.
 */
export function* mergeLayers(layers: readonly Iterator<ListedEntry>[]): Generator<LayerEvent> {
  const heads = layers.map(layer => nextOf(layer));
  const levels: HidingLevel[] = [];
  for (let key = lowest(heads); key !== undefined; key = lowest(heads)) {
    while (levels.length > 0 && !isBelow(key, levels.at(-1)?.key ?? '')) levels.pop();
    const inherited = levels.at(-1)?.hides ?? [];
    const own: number[] = [];
    let seen: PlacedEntry | undefined;
    let hidden = 0;
    for (const [layer, source] of layers.entries()) {
      const entry = heads[layer];
      const isHiding = inherited[hidden] === layer;
      if (isHiding) hidden += 1;
      if (entry?.key !== key) {
        if (isHiding && seen) yield { key, layer, entry: undefined, before: seen };
        if (isHiding) seen = undefined;
        continue;
      }
      heads[layer] = nextOf(source);
      if (entry.isImplicit) {
        own.push(layer);
        continue;
      }
      const isWhiteout = entry.kind === 'whiteout';
      yield { key, layer, entry: isWhiteout ? undefined : entry, before: seen };
      seen = isWhiteout ? undefined : { entry, layer };
      if (entry.kind !== 'directory' || entry.hides) own.push(layer);
    }
    if (own.length > 0) levels.push({ key, hides: joined(inherited, own) });
  }
}

function nextOf(layer: Iterator<ListedEntry>): ListedEntry | undefined {
  const next = layer.next();
  return next.done ? undefined : next.value;
}

function lowest(heads: readonly (ListedEntry | undefined)[]): string | undefined {
  let key: string | undefined;
  for (const head of heads) if (head && (key === undefined || head.key < key)) key = head.key;
  return key;
}

/** Returns true for a path below a directory. */
export function isBelow(key: string, directory: string): boolean {
  if (directory === '') return key !== '';
  return key.startsWith(directory) && key[directory.length] === keySeparator;
}

function joined(some: readonly number[], others: readonly number[]): readonly number[] {
  if (some.length === 0) return others;
  return [...new Set([...some, ...others])].sort((one, other) => one - other);
}
