import { LimitError } from './word-error.ts';

/**
 * What substitution may cost for one Dockerfile: variables made of each other double with every line,
 * and patterns take time by the square.
 */
export class Budget {
  #left = 2_000_000;

  /** Throws {@link LimitError} when all of it is spent. */
  spend(steps: number): void {
    this.#left -= steps;
    if (this.#left < 0) throw new LimitError('variables are too long or too many to be followed');
  }
}
