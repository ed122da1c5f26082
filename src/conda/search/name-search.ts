import { pauseTurn } from '../../foundation/pause-turn.ts';
import { compareTexts } from '../../foundation/text/text-order.ts';

/** Names of packages in one text: each between two newlines. */
export type NameList = string;

const hitsPerTurn = 1000;

/** Names that match, best first. */
export interface NameMatches {
  readonly names: readonly string[];
  /** Number of all names that match, at most {@link mostCounted}. */
  readonly total: number;
}

/** A search counts no further: nobody looks through more matches. */
export const mostCounted = 1000;

/**
 * Returns the names that contain a text: the name itself first, then names that begin with it, then others; of equals the
 * shorter one. Yields to the event loop in between.
 */
export async function matchingNames(
  lists: Iterable<NameList>,
  text: string,
  most: number,
): Promise<NameMatches> {
  const wanted = text.toLowerCase();
  const groups: readonly string[][] = [[], [], []];
  const counted = new Set<string>();
  let hits = 0;
  for (const list of lists) {
    for (let at = list.indexOf(wanted); at >= 0; ) {
      const start = list.lastIndexOf('\n', at) + 1;
      const end = list.indexOf('\n', at);
      const name = list.slice(start, end);
      const rank = name === wanted ? 0 : start === at ? 1 : 2;
      keepBest(groups[rank] ?? [], name, most);
      if (counted.size < mostCounted) counted.add(name);
      at = list.indexOf(wanted, end);
      hits += 1;
      if (hits % hitsPerTurn === 0) await pauseTurn();
    }
  }
  return { names: groups.flat().slice(0, most), total: counted.size };
}

/** Returns true if a list has a name. */
export function hasName(list: NameList, name: string): boolean {
  return list.includes(`\n${name}\n`);
}

/** Puts a name in its place among the best ones, and drops the last one if there are too many. */
function keepBest(best: string[], name: string, most: number): void {
  const last = best.at(-1);
  if (best.length >= most && last !== undefined && byLength(name, last) >= 0) return;
  const place = best.findIndex(other => byLength(name, other) <= 0);
  if (place >= 0 && best[place] === name) return;
  best.splice(place < 0 ? best.length : place, 0, name);
  if (best.length > most) best.pop();
}

function byLength(one: string, other: string): number {
  return one.length - other.length || compareTexts(one, other);
}
