import { text as readText } from 'node:stream/consumers';
import { CommandError } from '../command/command.ts';

/**
 * Returns the password on standard input without the newline at its end, like `docker login --password-stdin`. Throws
 * {@link CommandError} when there is none.
 *
 * @param command the command that the user writes, without the redirection
 */
export async function readPassword(command: string): Promise<string> {
  const password = (await readText(process.stdin)).replace(/\r?\n$/, '');
  if (password !== '') return password;
  throw new CommandError(`Standard input contains no password: write ${command} < FILE`, 2);
}
