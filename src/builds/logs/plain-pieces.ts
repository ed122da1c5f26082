import { pauseTurn } from '../../foundation/pause-turn.ts';

// Logs have no other sequences, see log-text.ts.
const introducer = '\u001b';
const escapeByte = 0x1b;
const reset = `${introducer}[0m`;
const colours = new RegExp(`${introducer}\\[[\\d;]*m`, 'g');
const unfinished = new RegExp(`${introducer}(?:\\[[\\d;]*)?$`);

/** Returns a text of a log without colours. */
export function withoutColours(text: string): string {
  return text.includes(introducer) ? text.replace(colours, '') : text;
}

/**
 * Returns a text of a log that was cut, without the sequence at its end that is not whole. Its last colour does not
 * reach into what follows.
 */
export function closedCut(text: string): string {
  const whole = text.replace(unfinished, '');
  const last = whole.lastIndexOf(introducer);
  return last < 0 || whole.startsWith(reset, last) ? whole : whole + reset;
}

/** Yields pieces of a log without colours. */
export async function* plainPieces(pieces: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let rest = '';
  for await (const piece of pieces) {
    if (rest === '' && !piece.includes(escapeByte)) {
      yield piece;
      continue;
    }
    // One character for each byte: a piece may end within a character.
    const text = rest + piece.toString('latin1');
    const [end = ''] = unfinished.exec(text) ?? [];
    rest = end;
    const plain = text.slice(0, text.length - end.length).replace(colours, '');
    if (plain !== '') yield Buffer.from(plain, 'latin1');
    await pauseTurn();
  }
  if (rest !== '') yield Buffer.from(rest, 'latin1');
}
