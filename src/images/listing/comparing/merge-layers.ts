import { keySeparator, type ListedEntry } from '../records/listed-entry.ts';
import { LayerHeads, type PlacedEntry } from './layer-heads.ts';

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

/** A directory in which some layers hide everything that is below them. */
interface HidingLevel {
  readonly key: string;
  /** Numbers of these layers, the lowest first. */
  readonly hides: readonly number[];
}

/**
 * Yields what the layers of an image do, path by path in the order of keys, and for one path from the lowest layer to the
 * highest. Holds one entry of each layer and the directories above the current path in memory. An entry costs the
 * logarithm of the number of layers.
 * Source: OCI image specification layer.md, Applying Changesets.
 */
export function* mergeLayers(layers: readonly Iterator<ListedEntry>[]): Generator<LayerEvent> {
  const heads = new LayerHeads(layers);
  const levels: HidingLevel[] = [];
  for (let key = heads.key; key !== undefined; key = heads.key) {
    while (levels.length > 0 && !isBelow(key, levels.at(-1)?.key ?? '')) levels.pop();
    const inherited = levels.at(-1)?.hides ?? [];
    const own: number[] = [];
    let seen: PlacedEntry | undefined;
    for (;;) {
      const head = heads.take(key);
      const hiding = seen && firstBetween(inherited, seen.layer, head?.layer ?? layers.length);
      if (hiding !== undefined) {
        yield { key, layer: hiding, entry: undefined, before: seen };
        seen = undefined;
      }
      if (!head) break;
      const { entry, layer } = head;
      if (entry.isImplicit) {
        own.push(layer);
        continue;
      }
      const isWhiteout = entry.kind === 'whiteout';
      yield { key, layer, entry: isWhiteout ? undefined : entry, before: seen };
      seen = isWhiteout ? undefined : head;
      if (entry.kind !== 'directory' || entry.hides) own.push(layer);
    }
    if (own.length > 0) levels.push(levelOf(key, inherited, own));
  }
}

/** Most levels are files, below which there is nothing: their layers are joined only when they are needed. */
function levelOf(key: string, inherited: readonly number[], own: readonly number[]): HidingLevel {
  let hides: readonly number[] | undefined;
  return {
    key,
    get hides() {
      hides ??= joined(inherited, own);
      return hides;
    },
  };
}

/** Returns the lowest of some numbers in their order that is between two others. */
function firstBetween(
  numbers: readonly number[],
  after: number,
  before: number,
): number | undefined {
  let low = 0;
  let high = numbers.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((numbers[middle] ?? 0) <= after) low = middle + 1;
    else high = middle;
  }
  const found = numbers[low];
  return found !== undefined && found < before ? found : undefined;
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
