import { readSync, writeSync } from 'node:fs';
import type { RecordSection } from './json-records.ts';

/** Consecutive bytes of the spill file with records of one package. */
interface Run {
  readonly section: RecordSection;
  readonly start: number;
  bytes: number;
  count: number;
}

/** The records of one section of a shard: so many entries of a map, as MessagePack. */
export interface SpilledSection {
  readonly count: number;
  readonly bytes: readonly Buffer[];
}

const bufferBytes = 1024 * 1024;

/**
 * Keeps records in a file until all are known: those of one package stand in several places of the repository data.
 * Writes synchronously, so it belongs on its own thread.
 */
export class RecordSpill {
  readonly #file: number;
  readonly #runs = new Map<string, Run[]>();
  readonly #buffer = Buffer.allocUnsafe(bufferBytes);
  #fill = 0;
  #size = 0;

  /** @param file descriptor of an empty file that is open for reading and writing */
  constructor(file: number) {
    this.#file = file;
  }

  /** Names of all packages, sorted. */
  get names(): readonly string[] {
    return [...this.#runs.keys()].sort();
  }

  /** Adds an entry of the map of a section: its key and its value, as MessagePack. */
  add(name: string, section: RecordSection, entry: Uint8Array): void {
    const start = this.#size;
    this.#append(entry);
    const runs = this.#runs.get(name);
    const last = runs?.at(-1);
    if (last && last.section === section && last.start + last.bytes === start) {
      last.bytes += entry.length;
      last.count += 1;
      return;
    }
    const run: Run = { section, start, bytes: entry.length, count: 1 };
    if (runs) runs.push(run);
    else this.#runs.set(name, [run]);
  }

  section(name: string, section: RecordSection): SpilledSection {
    this.#flush();
    const runs = (this.#runs.get(name) ?? []).filter(run => run.section === section);
    return {
      count: runs.reduce((sum, { count }) => sum + count, 0),
      bytes: runs.map(run => {
        const bytes = Buffer.allocUnsafe(run.bytes);
        if (readSync(this.#file, bytes, 0, run.bytes, run.start) !== run.bytes) {
          throw new Error('the file of records ends too early');
        }
        return bytes;
      }),
    };
  }

  #append(entry: Uint8Array): void {
    if (this.#fill + entry.length > bufferBytes) this.#flush();
    if (entry.length > bufferBytes) {
      writeWhole(this.#file, entry);
    } else {
      this.#buffer.set(entry, this.#fill);
      this.#fill += entry.length;
    }
    this.#size += entry.length;
  }

  #flush(): void {
    writeWhole(this.#file, this.#buffer.subarray(0, this.#fill));
    this.#fill = 0;
  }
}

/** Appends all bytes to a file. */
export function writeWhole(file: number, bytes: Uint8Array): void {
  for (let done = 0; done < bytes.length; ) {
    done += writeSync(file, bytes, done, bytes.length - done);
  }
}
