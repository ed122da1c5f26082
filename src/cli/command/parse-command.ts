import { parseArgs } from 'node:util';
import { nearestName } from '../../http/errors/nearest-name.ts';
import { type Command, UsageError, type Values } from './command.ts';
import { helpOption } from './help.ts';

/** Returns the values of the options and the arguments. Throws {@link UsageError}. */
export function parseCommand(
  command: Command,
  words: readonly string[],
): { readonly values: Values; readonly args: readonly string[] } {
  const options = { ...command.options, help: helpOption };
  try {
    const { values, positionals } = parseArgs({
      args: [...words],
      options,
      allowPositionals: true,
    });
    return { values, args: positionals };
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    // The sentences after the first one are about arguments that begin with a dash.
    const [why = ''] = error.message.split('. ');
    const [, unknown] = /^Unknown option '--([^']+)'/.exec(why) ?? [];
    const meant = unknown === undefined ? undefined : nearestName(unknown, Object.keys(options));
    throw new UsageError(`${why}${suggestion(meant === undefined ? undefined : `--${meant}`)}`);
  }
}

/** Returns the command that a word names. Throws {@link UsageError} with the most similar name. */
export function findNamed<T>(known: Readonly<Record<string, T>>, word: string, what: string): T {
  const found = Object.hasOwn(known, word) ? known[word] : undefined;
  if (found !== undefined) return found;
  const meant = nearestName(word, Object.keys(known));
  throw new UsageError(`Unknown ${what}: ${word}${suggestion(meant)}`);
}

function suggestion(meant: string | undefined): string {
  return meant === undefined ? '' : `. Did you mean ${meant}?`;
}
