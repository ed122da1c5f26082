import { Fault } from '../../../foundation/fault.ts';

/** Throws the {@link Fault} of a definition file that cannot be built, with the line, counted from 1. */
export function refuseLine(line: number, why: string): never {
  throw new Fault('bad-request', `The definition file cannot be built: line ${line}: ${why}`, {
    phase: 'request',
  });
}

/** Formats a text of the file for a message: short, on one line. */
export function shownText(text: string): string {
  const plain = text.trim().replace(/[\p{Cc}\p{Zl}\p{Zp}]/gu, '?');
  return plain.length > 80 ? `'${plain.slice(0, 80)}...'` : `'${plain}'`;
}
