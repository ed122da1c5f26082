import { pauseTurn } from '../../foundation/pause-turn.ts';

/** Names of packages in one text: each between two newlines. */
export type NameList = string;

const hitsPerTurn = 1000;

/** Names that match, best first, and the number of all that match. */
export interface NameMatches {
  readonly names: readonly string[];
  readonly total: number;
}

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
  const ranks = new Map<string, number>();
  let hits = 0;
  for (const list of lists) {
    for (let at = list.indexOf(wanted); at >= 0; ) {
      const start = list.lastIndexOf('\n', at) + 1;
      const end = list.indexOf('\n', at);
      const name = list.slice(start, end);
      const rank = name === wanted ? 0 : start === at ? 1 : 2;
      ranks.set(name, Math.min(rank, ranks.get(name) ?? rank));
      at = list.indexOf(wanted, end);
      hits += 1;
      if (hits % hitsPerTurn === 0) await pauseTurn();
    }
  }
  const groups: string[][] = [[], [], []];
  for (const [name, rank] of ranks) groups[rank]?.push(name);
  const names: string[] = [];
  for (const group of groups) {
    if (names.length >= most) break;
    names.push(...group.sort(byLength).slice(0, most - names.length));
    await pauseTurn();
  }
  return { names, total: ranks.size };
}

/** Returns true if a list has a name. */
export function hasName(list: NameList, name: string): boolean {
  return list.includes(`\n${name}\n`);
}

function byLength(one: string, other: string): number {
  return one.length - other.length || (one < other ? -1 : 1);
}
