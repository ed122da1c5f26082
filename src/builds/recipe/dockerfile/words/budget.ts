import { LimitError } from './word-error.ts';

/**
 * Limits the cost of words and variables in one Dockerfile, in characters read and inserted. Variables made of each
 * other double with every line, and patterns take quadratic time. Spending the whole budget takes about 20 ms.
 */
export class Budget {
  #left = 200_000;

  /** Throws {@link LimitError} when the budget is spent. */
  spend(steps: number): void {
    this.#left -= steps;
    if (this.#left < 0)
      throw new LimitError('variables are too long, or there are too many of them');
  }
}
