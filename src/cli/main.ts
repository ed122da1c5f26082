/** The command `sluice` of the package sluice. */

import { runProgram } from './program.ts';

process.exitCode = await runProgram();
