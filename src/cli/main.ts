/** The command `sluice` of the package sluice. */

import { runCommandLine } from './command/run-command-line.ts';
import { commands } from './commands.ts';
import { allowDataDirectories } from './people/local-access.ts';

allowDataDirectories(async () => (await import('./people/local-platform.ts')).withLocalPlatform);
process.exitCode = await runCommandLine(process.argv.slice(2), commands);
