import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { Result } from './program.ts';

const program = fileURLToPath(new URL('../../bin/sluice.js', import.meta.url));

/** Runs `sluice <args>` with nothing in its environment but the PATH and what is told, and the input on stdin. */
export function sluiceCommand(
  args: readonly string[],
  environment: Readonly<Record<string, string>> = {},
  input = '',
): Promise<Result> {
  return new Promise(resolve => {
    const env = { PATH: process.env.PATH, ...environment };
    const child = execFile(
      process.execPath,
      [program, ...args],
      { env },
      (error, stdout, stderr) => {
        resolve({ code: error ? Number(error.code ?? -1) : 0, stdout, stderr });
      },
    );
    // A command that reads nothing may be over before this is written.
    child.stdin?.on('error', () => {});
    child.stdin?.end(input);
  });
}
