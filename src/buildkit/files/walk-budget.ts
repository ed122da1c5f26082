import { setImmediate as nextTurn } from 'node:timers/promises';

/** More than any .dockerignore of a real tree needs, and about five seconds. */
const usualSteps = 200_000_000;
// For one path, which is matched without a pause: about 20 ms.
const stepsForOne = 400_000;
const turnMs = 8;

/** What it may cost to choose files by patterns, which may be a stranger's, and when others get their turn. */
export class WalkBudget {
  #left: number;
  #leftForOne = stepsForOne;
  #began = performance.now();

  constructor(steps = usualSteps) {
    this.#left = steps;
  }

  /** Called before each path; gives others their turn once in a while. */
  async next(): Promise<void> {
    this.#leftForOne = stepsForOne;
    if (performance.now() - this.#began < turnMs) return;
    await nextTurn();
    this.#began = performance.now();
  }

  /** Throws an `Error` when all of it is spent. */
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
