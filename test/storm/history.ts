/** What clients did to registers, such as tags, and what they saw. */
import { writeFile } from 'node:fs/promises';

/** A line of the history, as the program in `linear/` reads it. Times are in nanoseconds of one clock. */
export interface Operation {
  readonly key: string;
  readonly client: number;
  readonly kind: 'write' | 'read';
  /** `''` for an absent value: a write of it deletes. No two writes have the same other value. */
  readonly value: string;
  readonly start: number;
  /** Null for a write whose outcome is unknown. */
  readonly end: number | null;
}

type Place = Pick<Operation, 'key' | 'client'>;

export class History {
  readonly #operations: Operation[] = [];
  readonly #counts = new Map<string, number>();
  readonly #began = process.hrtime.bigint();

  /** Nanoseconds since the history began. */
  now(): number {
    return Number(process.hrtime.bigint() - this.#began);
  }

  note(operation: Operation): void {
    this.#operations.push(operation);
    this.#counts.set(operation.key, this.countOf(operation.key) + 1);
  }

  /** Runs a change of a register. When the work fails, the change may have happened, or may happen later. */
  async write<T>(place: Place, value: string, work: () => Promise<T>): Promise<T> {
    const start = this.now();
    let end: number | null = null;
    try {
      const result = await work();
      end = this.now();
      return result;
    } finally {
      this.note({ ...place, kind: 'write', value, start, end });
    }
  }

  /** Runs a read of a register. A read that fails has seen nothing. */
  async read(place: Place, work: () => Promise<string>): Promise<string> {
    const start = this.now();
    const value = await work();
    this.note({ ...place, kind: 'read', value, start, end: this.now() });
    return value;
  }

  /** Writes it into a file, as the checker reads it. */
  async save(file: string): Promise<void> {
    const lines = this.#operations.map(operation => `${JSON.stringify(operation)}\n`);
    await writeFile(file, lines.join(''));
  }

  countOf(key: string): number {
    return this.#counts.get(key) ?? 0;
  }

  get operations(): readonly Operation[] {
    return this.#operations;
  }

  get keys(): readonly string[] {
    return [...this.#counts.keys()];
  }
}
