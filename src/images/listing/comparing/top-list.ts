/** Keeps the largest items of many. */
export class TopList<T> {
  readonly #most: number;
  readonly #sizeOf: (item: T) => number;
  #items: T[] = [];

  constructor(most: number, sizeOf: (item: T) => number) {
    this.#most = most;
    this.#sizeOf = sizeOf;
  }

  add(item: T): void {
    this.#items.push(item);
    if (this.#items.length >= this.#most * 8) this.#items = this.take();
  }

  /** Returns the largest items, the largest first. */
  take(): T[] {
    return this.#items
      .toSorted((one, other) => this.#sizeOf(other) - this.#sizeOf(one))
      .slice(0, this.#most);
  }
}
