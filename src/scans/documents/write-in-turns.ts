import { pauseTurn } from '../../foundation/pause-turn.ts';

// Writing them takes a few ms.
const atOnce = 200;

/** A member of a document that is a long list: its items are written one after the other, with pauses. */
export interface LongList {
  readonly name: string;
  readonly items: Iterable<object>;
}

/**
 * Returns a document as JSON. Documents about thousands of packages would hold up other requests if they were written in one step.
 *
 * @param members all that is not long
 */
export async function writeInTurns(members: object, lists: readonly LongList[]): Promise<string> {
  const parts = [JSON.stringify(members).slice(0, -1)];
  for (const { name, items } of lists) {
    parts.push(`,\n${JSON.stringify(name)}: [`);
    let count = 0;
    for (const item of items) {
      parts.push(`${count === 0 ? '' : ','}\n${JSON.stringify(item)}`);
      count += 1;
      if (count % atOnce === 0) await pauseTurn();
    }
    parts.push('\n]');
  }
  return `${parts.join('')}}\n`;
}
