/** The command `sluice` of the package sluice. */

import { endWithoutReader, runCommandLine } from './command/run-command-line.ts';
import { commands } from './commands.ts';
import { allowDataDirectories } from './people/local-access.ts';

allowDataDirectories(async () => (await import('./people/local-platform.ts')).withLocalPlatform);
// The log of a server handles this itself.
if (process.argv[2] !== 'serve') endWithoutReader();
process.exitCode = await runCommandLine(process.argv.slice(2), commands);
