import { setTimeout as sleep } from 'node:timers/promises';
import { Random } from '../fuzz/random.ts';
import type { Storm, Work } from './storm.ts';
import { Wrong } from './wrong.ts';

const longestPauseMs = 100;
const pauseAfterRefusalMs = 50;

/** Clients that work until they are stopped: one for each piece of work, which it repeats. */
export class Clients {
  /** What must never happen, and did. */
  readonly wrong: string[] = [];
  readonly #storm: Storm;
  readonly #work: Promise<unknown>;
  #isStopped = false;

  constructor(storm: Storm, works: readonly Work[]) {
    this.#storm = storm;
    this.#work = Promise.all(works.map((work, number) => this.#repeat(work, number)));
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#work;
  }

  async #repeat(work: Work, number: number): Promise<void> {
    const { seed, tally } = this.#storm;
    const client = { number, random: new Random(seed + number) };
    while (!this.#isStopped) {
      try {
        await work(this.#storm, client);
        await sleep(client.random.int(longestPauseMs));
      } catch (error) {
        if (error instanceof Wrong) this.wrong.push(error.message);
        else tally.refuse(work.name, error as Error);
        await sleep(pauseAfterRefusalMs);
      }
    }
  }
}
