import { BuildError } from './build-error.ts';

/** Error messages for the caller whose operation is stopped. */
export interface StopMessages {
  readonly cancelled: string;
  readonly timeout: string;
}

/**
 * Records why an operation ends early; the first reason counts. Removes its listeners from signals that live longer;
 * `AbortSignal.any` keeps them for a while.
 */
export class Stop implements Disposable {
  readonly #controller = new AbortController();
  readonly #signals: readonly AbortSignal[];
  readonly #timer: NodeJS.Timeout | undefined;
  readonly #cancel: () => void;

  /** Stops when a signal is aborted (kind `cancelled`) or the time has expired (kind `timeout`). */
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

  /** Aborted with the first reason. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  because(reason: unknown): void {
    this.#controller.abort(reason);
  }

  /** Removes the timer and the listeners, so that nothing stops the operation any more. */
  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
    for (const signal of this.#signals) signal.removeEventListener('abort', this.#cancel);
  }
}
