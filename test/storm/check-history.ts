import { runProgram } from '../world/program.ts';
import { requireChecker } from '../world/tools.ts';
import type { Operation } from './history.ts';

/** What the program in `linear/` says about a history. */
export interface Report {
  /** `Unknown`: a key took too long. */
  readonly verdict: 'Ok' | 'Illegal' | 'Unknown';
  readonly keys: number;
  readonly operations: number;
  readonly failures: readonly {
    readonly key: string;
    readonly verdict: string;
    /** The operations around the first one that cannot be explained. */
    readonly window: readonly Operation[];
  }[];
}

/** Checks that each operation can have happened at one moment between its start and its end. */
export async function checkHistory(operations: readonly Operation[]): Promise<Report> {
  const input = operations.map(operation => `${JSON.stringify(operation)}\n`).join('');
  const checked = await runProgram([requireChecker()], { env: {}, input });
  if (checked.code !== 0) throw new Error(checked.stderr);
  return JSON.parse(checked.stdout);
}
