import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { Result } from './program.ts';

export const sluiceProgram = fileURLToPath(new URL('../../bin/sluice.js', import.meta.url));

/** Runs `sluice <args>` with only PATH and the given variables in its environment, and with the input on stdin. */
export function sluiceCommand(
  args: readonly string[],
  environment: Readonly<Record<string, string>> = {},
  input = '',
  directory?: string,
): Promise<Result> {
  return new Promise(resolve => {
    const env = { PATH: process.env.PATH, ...environment };
    const child = execFile(
      process.execPath,
      [sluiceProgram, ...args],
      { env, cwd: directory },
      (error, stdout, stderr) => {
        resolve({ code: error ? Number(error.code ?? -1) : 0, stdout, stderr });
      },
    );
    // A command that does not read its input may have ended before this is written.
    child.stdin?.on('error', () => {});
    child.stdin?.end(input);
  });
}
