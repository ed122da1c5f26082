import { BuildError } from './build-error.ts';

/** Messages for the caller of what is stopped. */
export interface StopMessages {
  readonly cancelled: string;
  readonly timeout: string;
}

/**
 * Why something ends before it is done: the first reason counts. Leaves nothing behind at signals that
 * live longer, as `AbortSignal.any` does for a while.
 */
export class Stop implements Disposable {
  readonly #controller = new AbortController();
  readonly #signals: readonly AbortSignal[];
  readonly #timer: NodeJS.Timeout | undefined;
  readonly #cancel: () => void;

  /** Stops when a signal is aborted (with kind `cancelled`) or the time is over (`timeout`). */
  constructor(
    signals: readonly (AbortSignal | undefined)[],
    timeoutMs: number | undefined,
    messages: StopMessages,
  ) {
    this.#signals = signals.filter(signal => signal !== undefined);
    this.#cancel = () => this.because(new BuildError('cancelled', messages.cancelled));
    for (const signal of this.#signals) {
      signal.addEventListener('abort', this.#cancel);
      if (signal.aborted) this.#cancel();
    }
    if (timeoutMs === undefined) return;
    const onTimeout = () => this.because(new BuildError('timeout', messages.timeout));
    this.#timer = setTimeout(onTimeout, timeoutMs);
  }

  /** Aborted with the reason. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  because(reason: unknown): void {
    this.#controller.abort(reason);
  }

  /** Nothing stops it any more. */
  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
    for (const signal of this.#signals) signal.removeEventListener('abort', this.#cancel);
  }
}
