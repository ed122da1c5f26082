/** The time that a fetch has. It does not run while the fetch waits for others. */
export class FetchTime implements Disposable {
  readonly #controller = new AbortController();
  #leftMs: number;
  #began: number | undefined;
  #timer: NodeJS.Timeout | undefined;

  /** @param ms when it is over, the signal is aborted */
  constructor(ms: number) {
    this.#leftMs = ms;
    this.run();
  }

  /** Aborted when the time is over. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Lets the time run on. */
  run(): void {
    if (this.#began !== undefined) return;
    this.#began = performance.now();
    this.#timer = setTimeout(() => this.#controller.abort(), Math.max(0, this.#leftMs)).unref();
  }

  /** Stops the time until {@link FetchTime.run}. */
  pause(): void {
    if (this.#began === undefined) return;
    clearTimeout(this.#timer);
    this.#leftMs -= performance.now() - this.#began;
    this.#began = undefined;
  }

  [Symbol.dispose](): void {
    this.pause();
  }
}
