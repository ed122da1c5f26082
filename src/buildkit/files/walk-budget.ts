import { setImmediate as nextTurn } from 'node:timers/promises';

/** More than the .dockerignore of any real tree needs; takes about five seconds. */
const usualSteps = 200_000_000;
// Limit for one path, which is matched without a pause: about 20 ms.
const stepsForOne = 400_000;
const turnMs = 8;

/** Limits the cost of file selection, because the patterns may be untrusted. Also yields to other work. */
export class WalkBudget {
  #left: number;
  #leftForOne = stepsForOne;
  #began = performance.now();

  constructor(steps = usualSteps) {
    this.#left = steps;
  }

  /** Call it before each path. Yields to other work from time to time. */
  async next(): Promise<void> {
    this.#leftForOne = stepsForOne;
    if (performance.now() - this.#began < turnMs) return;
    await nextTurn();
    this.#began = performance.now();
  }

  /** Throws an `Error` when the budget is spent. */
  readonly spend = (steps: number): void => {
    this.#left -= steps;
    this.#leftForOne -= steps;
    if (this.#left < 0 || this.#leftForOne < 0) {
      throw new Error(
        'the patterns of .dockerignore and COPY are too many, or too long, for the files of the build context',
      );
    }
  };
}
