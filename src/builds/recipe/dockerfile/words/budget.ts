import { LimitError } from './word-error.ts';

/**
 * What words and variables may cost for one Dockerfile, in characters read and put in: variables made of each
 * other double with every line, and patterns take time by the square. All of it takes about 20 ms.
 */
export class Budget {
  #left = 200_000;

  /** Throws {@link LimitError} when all of it is spent. */
  spend(steps: number): void {
    this.#left -= steps;
    if (this.#left < 0)
      throw new LimitError('variables are too long, or there are too many of them');
  }
}
