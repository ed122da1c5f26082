import { Fault } from '../../foundation/fault.ts';

/**
 * Splits a command into words as a shell does, without replacing anything in it: words end at blanks, quotes and
 * backslashes keep them together. Throws a `Fault` for an open quote.
 */
export function entrypointWords(field: string, text: string): readonly string[] {
  const words: string[] = [];
  let word: string | undefined;
  let quote = '';
  for (let at = 0; at < text.length; at += 1) {
    const character = text.charAt(at);
    if (character === '\\' && quote !== "'" && at + 1 < text.length) {
      at += 1;
      word = (word ?? '') + text.charAt(at);
    } else if (quote !== '') {
      if (character === quote) quote = '';
      else word += character;
    } else if (character === "'" || character === '"') {
      quote = character;
      word ??= '';
    } else if (/\s/.test(character)) {
      if (word !== undefined) words.push(word);
      word = undefined;
    } else {
      word = (word ?? '') + character;
    }
  }
  if (quote !== '') {
    throw new Fault('bad-request', `'${field}' has an open quote: close it with ${quote}`, {
      phase: 'request',
    });
  }
  return word === undefined ? words : [...words, word];
}
