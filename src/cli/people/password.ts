import { text as readText } from 'node:stream/consumers';
import { CommandError } from '../command.ts';

/**
 * Returns the password on standard input, as `docker login --password-stdin` reads it: without the newline at
 * its end. Throws {@link CommandError} for none.
 *
 * @param command what the user has to write, without the redirection
 */
export async function readPassword(command: string): Promise<string> {
  const password = (await readText(process.stdin)).replace(/\r?\n$/, '');
  if (password !== '') return password;
  throw new CommandError(`There is no password on standard input: write ${command} < FILE`, 2);
}
