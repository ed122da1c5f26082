import { unlessAborted } from './work.ts';

export interface SingleFlightOptions {
  /** How long work continues after its last caller has left (ms): another one may come. Default: 0. */
  readonly lingerMs?: number;
  /**
   * False where callers have different rights: a caller that joined the work of another one, and sees it fail, runs its own.
   * Default: true.
   */
  readonly sharesFailure?: boolean;
}

/** A caller of shared work. */
export interface FlightCaller {
  /** Callers with the same key share their work. Default: all callers share it. */
  readonly key?: string;
  /** Aborted when the caller leaves. A caller without one never leaves: the work goes on to its end. */
  readonly signal?: AbortSignal | undefined;
}

/** Work that callers share. Its signal is aborted when all of them have left. */
export type SharedWork<T> = (signal: AbortSignal) => Promise<T>;

/**
 * Runs work once for all callers that come with the same key while it runs. Later callers run it again: nothing is kept.
 *
 * When the last caller leaves, the work is aborted, and new callers do not join it. Otherwise its result reaches a caller. So what
 * a result holds open has an owner: the work ends it when its signal is aborted, even at the last moment, and else the callers do.
 */
export class SingleFlight<T> {
  readonly #lingerMs: number;
  readonly #sharesFailure: boolean;
  readonly #flights = new Map<string, Flight<T>>();

  constructor({ lingerMs = 0, sharesFailure = true }: SingleFlightOptions = {}) {
    this.#lingerMs = lingerMs;
    this.#sharesFailure = sharesFailure;
  }

  /** Number of keys whose work runs. */
  get size(): number {
    return this.#flights.size;
  }

  /** Returns true while work with this key runs. */
  has(key: string): boolean {
    return this.#flights.has(key);
  }

  /** Runs the work, or joins that of others. Rejects with its error, and with the reason of the caller's signal. */
  async run(work: SharedWork<T>, { key = '', signal }: FlightCaller = {}): Promise<T> {
    signal?.throwIfAborted();
    const others = this.#flights.get(key);
    const flight = others ?? this.#begin(key, work);
    try {
      return await flight.join(signal);
    } catch (error) {
      if (!others || this.#sharesFailure || signal?.aborted) throw error;
      return (this.#flights.get(key) ?? this.#begin(key, work)).join(signal);
    }
  }

  /**
   * Like {@link run}, but joins no work that began before the call, because that may have missed the last change. All callers that
   * come while work runs share the next run.
   */
  async runFresh(work: SharedWork<T>, caller: FlightCaller = {}): Promise<T> {
    const running = this.#flights.get(caller.key ?? '');
    if (running) await unlessAborted(running.over(), caller.signal);
    return this.run(work, caller);
  }

  /** Resolves when the work that runs now has ended. */
  async settled(): Promise<void> {
    await Promise.all(Array.from(this.#flights.values(), flight => flight.over()));
  }

  #begin(key: string, work: SharedWork<T>): Flight<T> {
    const forget = () => {
      if (this.#flights.get(key) === flight) this.#flights.delete(key);
    };
    const flight = new Flight<T>(forget, this.#lingerMs);
    this.#flights.set(key, flight);
    flight.start(work);
    return flight;
  }
}

class Flight<T> {
  readonly #forget: () => void;
  readonly #lingerMs: number;
  readonly #stop = new AbortController();
  #result: Promise<T> | undefined;
  #callers = 0;
  #isOver = false;
  #linger: NodeJS.Timeout | undefined;

  constructor(forget: () => void, lingerMs: number) {
    this.#forget = forget;
    this.#lingerMs = lingerMs;
  }

  start(work: SharedWork<T>): void {
    this.#result = this.#run(work);
  }

  async #run(work: SharedWork<T>): Promise<T> {
    try {
      return await work(this.#stop.signal);
    } finally {
      this.#isOver = true;
      clearTimeout(this.#linger);
      this.#forget();
    }
  }

  /** Resolves when the work has ended, whatever its result. */
  async over(): Promise<void> {
    await this.#result?.catch(() => {});
  }

  async join(signal: AbortSignal | undefined): Promise<T> {
    this.#callers += 1;
    clearTimeout(this.#linger);
    const result = this.#result as Promise<T>;
    if (!signal) return result;
    const { promise, reject } = Promise.withResolvers<never>();
    const leave = () => {
      // The result is on its way: it must reach a caller.
      if (this.#isOver) return;
      reject(signal.reason);
      this.#callers -= 1;
      if (this.#callers === 0) this.#abandon(signal.reason);
    };
    signal.addEventListener('abort', leave);
    try {
      return await Promise.race([result, promise]);
    } finally {
      signal.removeEventListener('abort', leave);
    }
  }

  /** Ends the work, unless another caller comes in time. */
  #abandon(reason: unknown): void {
    const end = () => {
      this.#forget();
      this.#stop.abort(reason);
    };
    if (this.#lingerMs === 0) end();
    else this.#linger = setTimeout(end, this.#lingerMs);
  }
}
