import { endWithoutReader, runCommandLine } from './command/run-command-line.ts';
import { commands } from './commands.ts';
import { allowDataDirectories } from './people/local-access.ts';

/** Runs the command `sluice` of the package sluice with the words of this process, and returns its exit code. */
export function runProgram(): Promise<number> {
  allowDataDirectories(async () => (await import('./people/local-platform.ts')).withLocalPlatform);
  // The log of a server handles this itself.
  if (process.argv[2] !== 'serve') endWithoutReader();
  return runCommandLine(process.argv.slice(2), commands);
}
