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

/** The next entry of each layer, the lowest key first: a binary heap. */
export class LayerHeads {
  readonly #heap: Head[] = [];

  constructor(layers: readonly Iterator<ListedEntry>[]) {
    for (const [layer, source] of layers.entries()) {
      const next = source.next();
      if (!next.done) this.#heap.push({ entry: next.value, layer, source });
    }
    for (let at = (this.#heap.length >> 1) - 1; at >= 0; at -= 1) this.#sink(at);
  }

  /** The lowest key; undefined at the end. */
  get key(): string | undefined {
    return this.#heap[0]?.entry.key;
  }

  /** Takes the entry with this key of the lowest layer that has one. */
  take(key: string): PlacedEntry | undefined {
    const [head] = this.#heap;
    if (head?.entry.key !== key) return undefined;
    const next = head.source.next();
    const last = next.done ? this.#heap.pop() : { ...head, entry: next.value };
    if (last && this.#heap.length > 0) {
      this.#heap[0] = last;
      this.#sink(0);
    }
    return head;
  }

  /** Moves a head down until none below it comes before it. */
  #sink(from: number): void {
    const heap = this.#heap;
    const moved = heap[from] as Head;
    let at = from;
    for (;;) {
      const left = heap[2 * at + 1];
      if (!left) break;
      const right = heap[2 * at + 2];
      const child = right && isBefore(right, left) ? 2 * at + 2 : 2 * at + 1;
      const below = heap[child] as Head;
      if (isBefore(moved, below)) break;
      heap[at] = below;
      at = child;
    }
    heap[at] = moved;
  }
}

function isBefore(one: Head, other: Head): boolean {
  if (one.entry.key === other.entry.key) return one.layer < other.layer;
  return one.entry.key < other.entry.key;
}
