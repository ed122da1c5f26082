import { keySeparator, type ListedEntry } from '../listed-entry.ts';

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
      hides ??= joinedSorted(inherited, own);
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

function joinedSorted(some: readonly number[], others: readonly number[]): readonly number[] {
  if (some.length === 0) return others;
  return [...new Set([...some, ...others])].sort((one, other) => one - other);
}

/** What a layer says about a path. */
interface PlacedEntry {
  readonly entry: ListedEntry;
  /** Number of the layer, counted from 0. */
  readonly layer: number;
}

interface Head extends PlacedEntry {
  readonly source: Iterator<ListedEntry>;
}

/** The next entry of each layer, those of the lowest keys last. An image has at most some hundred layers. */
class LayerHeads {
  readonly #heads: Head[] = [];

  constructor(layers: readonly Iterator<ListedEntry>[]) {
    for (const [layer, source] of layers.entries()) this.#add(layer, source);
  }

  /** The lowest key; undefined at the end. */
  get key(): string | undefined {
    return this.#heads.at(-1)?.entry.key;
  }

  /** Takes the entry with this key of the lowest layer that has one. */
  take(key: string): PlacedEntry | undefined {
    if (this.key !== key) return undefined;
    const head = this.#heads.pop();
    if (head) this.#add(head.layer, head.source);
    return head;
  }

  #add(layer: number, source: Iterator<ListedEntry>): void {
    const { done, value: entry } = source.next();
    if (done) return;
    const added = { entry, layer, source };
    let [low, high] = [0, this.#heads.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (isBefore(this.#heads[middle] as Head, added)) high = middle;
      else low = middle + 1;
    }
    this.#heads.splice(low, 0, added);
  }
}

function isBefore(one: Head, other: Head): boolean {
  if (one.entry.key === other.entry.key) return one.layer < other.layer;
  return one.entry.key < other.entry.key;
}

/**
 * What a layer does to a path of the layers below. `again`: the same file is stored once more. `attributes`: only its mode,
 * its owner or its capabilities differ. `kept`: a directory that is there already.
 */
export const layerChanges = ['kept', 'added', 'changed', 'attributes', 'again', 'removed'] as const;

export type LayerChange = (typeof layerChanges)[number];

/** Returns what an entry does to the one below it. */
export function changeOf(entry: ListedEntry, before: PlacedEntry | undefined): LayerChange {
  const other = before?.entry;
  if (!other) return 'added';
  if (entry.kind !== other.kind || !hasSameContent(entry, other)) return 'changed';
  const isSame =
    entry.mode === other.mode &&
    entry.uid === other.uid &&
    entry.gid === other.gid &&
    entry.hasCapabilities === other.hasCapabilities;
  if (!isSame) return 'attributes';
  return entry.kind === 'directory' ? 'kept' : 'again';
}

function hasSameContent(entry: ListedEntry, other: ListedEntry): boolean {
  return entry.size === other.size && entry.hash === other.hash && entry.link === other.link;
}
