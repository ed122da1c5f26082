#!/usr/bin/env node
import { endWithoutReader, runCommandLine } from '../command/run-command-line.ts';
/** The command `sluice` of the package sluice-cli: the commands that require only a server. */
import { clientCommands } from './client-commands.ts';

endWithoutReader();
process.exitCode = await runCommandLine(process.argv.slice(2), clientCommands);
