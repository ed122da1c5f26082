import { setTimeout as sleep } from 'node:timers/promises';
import type { Replicas } from '../world/replicas.ts';
import type { Sluice } from '../world/sluice.ts';

const lookMs = 20;

/** Starts each replica again whenever it has ended, as a supervisor does. */
export class Supervisor implements AsyncDisposable {
  readonly #replicas: Replicas;
  readonly #onStart: (server: Sluice) => void;
  readonly #work: Promise<unknown>;
  /** Why replicas have ended while they started. */
  readonly failures: string[] = [];
  #isStopped = false;

  /** @param onStart called with each replica that runs */
  constructor(replicas: Replicas, onStart: (server: Sluice) => void) {
    this.#replicas = replicas;
    this.#onStart = onStart;
    replicas.servers.forEach(onStart);
    this.#work = Promise.all([...replicas.servers.keys()].map(at => this.#keep(at)));
    this.#work.catch(() => {});
  }

  /** True while all replicas run, and one leads. Throws when a replica gave a response that does not fit. */
  async isWhole(): Promise<boolean> {
    await Promise.race([this.#work, undefined]);
    const { servers } = this.#replicas;
    return servers.every(isRunning) && (await this.#replicas.leader()) >= 0;
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#work;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // A failure is that of the first stop.
    await this.stop().catch(() => {});
  }

  async #keep(at: number): Promise<void> {
    while (!this.#isStopped) {
      const server = this.#replicas.servers[at];
      if (server && isRunning(server)) {
        await sleep(lookMs);
        continue;
      }
      // Throws when a response did not fit.
      await server?.stop();
      await this.#replicas.start(at).then(this.#onStart, error => {
        // It ends while it starts: the database or the store is down.
        if (!/is not ready/.test(String(error))) throw error;
        this.failures.push(String(error));
      });
    }
  }
}

function isRunning({ process }: Sluice): boolean {
  return process.exitCode === null && process.signalCode === null;
}
