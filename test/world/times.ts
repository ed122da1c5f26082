/** Loaded before every test file of a run: records how long the file took, for `scripts/test.ts`. */
import { appendFileSync, readFileSync } from 'node:fs';
import { isMainThread } from 'node:worker_threads';

/** The variable with the path of the file that gets a line of JSON, a {@link FileTimes}, for each test file. */
export const timesVariable = 'SLUICE_TEST_TIMES';

export interface FileTimes {
  readonly file: string;
  readonly elapsedSeconds: number;
  /** Of the process and of all programs that it started and that have ended. */
  readonly processorSeconds: number;
}

// Linux counts times of processes in this unit on all platforms.
const ticksPerSecond = 100;

function processorSeconds(): number {
  const text = readFileSync('/proc/self/stat', 'utf8');
  // User and system time, of the process and of its children: fields 14 to 17. The second field may have spaces.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  return fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0) / ticksPerSecond;
}

const record = process.env[timesVariable];
const [, file] = process.argv;
if (record !== undefined && file !== undefined && isMainThread) {
  process.once('exit', () => {
    const elapsedSeconds = process.uptime();
    const times: FileTimes = { file, elapsedSeconds, processorSeconds: processorSeconds() };
    appendFileSync(record, `${JSON.stringify(times)}\n`);
  });
}
