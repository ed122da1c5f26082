import type { ListedEntry } from '../records/listed-entry.ts';

/** What a layer says about a path. */
export interface PlacedEntry {
  readonly entry: ListedEntry;
  /** Number of the layer, counted from 0. */
  readonly layer: number;
}

interface Head extends PlacedEntry {
  readonly source: Iterator<ListedEntry>;
}

/** The next entry of each layer, those of the lowest keys last. An image has at most some hundred layers. */
export class LayerHeads {
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
