/**
 * Lets so many reads of files run at once; the others wait, first come first served. Without it the answers to a thousand
 * reads arrive in one turn of the event loop, and a request for a small manifest waits for all of them.
 */
export class ReadQueue {
  readonly #limit: number;
  readonly #waiting: (() => void)[] = [];
  #running = 0;
  /** Where the queue begins: shifting a long array each time would cost more than the reads. */
  #first = 0;

  constructor(limit = 8) {
    this.#limit = limit;
  }

  /** Runs the read when it is its turn. */
  async run<T>(read: () => Promise<T>): Promise<T> {
    if (this.#running >= this.#limit) {
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#waiting.push(resolve);
      await promise;
    } else {
      this.#running += 1;
    }
    try {
      return await read();
    } finally {
      this.#next();
    }
  }

  #next(): void {
    const next = this.#waiting[this.#first];
    if (!next) {
      this.#running -= 1;
      return;
    }
    this.#first += 1;
    if (this.#first === this.#waiting.length || this.#first > 1000) {
      this.#waiting.splice(0, this.#first);
      this.#first = 0;
    }
    next();
  }
}
