import type { Completion } from '../command/command.ts';
import { type Place, quoted, spellingsOf, wordsWithPlace } from './word-places.ts';

/** Returns the pattern of a shell's `case` that matches the words that lead to another place. */
export function placeWords(places: readonly Place[]): string {
  return wordsWithPlace(places).map(quoted).join(' | ');
}

/**
 * Returns the branches of a shell's `case` on `<place> <previous word>`, one for each option with a value.
 *
 * @param replyOf returns the commands of the shell that offer values
 */
export function valueCases(
  places: readonly Place[],
  replyOf: (completes: Completion | undefined) => string,
): string[] {
  return places.flatMap(({ words, options }) =>
    options
      .filter(({ hasValue }) => hasValue)
      .map(option => {
        const patterns = spellingsOf(option).map(name => quoted(`${words.join(' ')} ${name}`));
        return `    ${patterns.join(' | ')}) ${replyOf(option.completes)}; return ;;`;
      }),
  );
}
