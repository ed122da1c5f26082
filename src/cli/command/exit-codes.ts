import type { Command } from './command.ts';

/** Meanings of the exit codes of all commands. */
export const exitCodes: Readonly<Record<number, string>> = {
  0: 'The command succeeded',
  1: 'The command failed. The message says why',
  2: 'The command line or a setting is wrong. Nothing was changed',
};

/** The exit code that a shell reports for SIGPIPE. */
export const outputClosed = 141;

/** The exit codes of commands that follow a build. */
export const followExits: Readonly<Record<number, string>> = {
  1: 'The command or the build failed',
  130: 'Interrupted with Ctrl-C. The build continues unless you cancelled it',
  [outputClosed]: 'The program that read the output has ended, such as head',
};

/** Returns the meaning of each exit code of a command. */
export function exitsOf({ exits }: Pick<Command, 'exits'>): readonly [string, string][] {
  return Object.entries({ ...exitCodes, ...exits });
}
