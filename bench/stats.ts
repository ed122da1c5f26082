export function median(values: readonly number[]): number {
  const sorted = [...values].sort((one, other) => one - other);
  const middle = Math.floor(sorted.length / 2);
  const upper = sorted[middle] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? upper) + upper) / 2;
}

/** How many times the second median the first one is. */
export function ratio(one: readonly number[], other: readonly number[]): number {
  return median(one) / median(other);
}

/**
 * Measures each contestant once a round, in turns, so that whatever else the machine does hits all of
 * them. One round before the others warms everything up and is not counted.
 */
export async function interleave<Name extends string>(
  contestants: Readonly<Record<Name, () => Promise<number>>>,
  rounds: number,
): Promise<Record<Name, number[]>> {
  const names = Object.keys(contestants) as Name[];
  const figures = Object.fromEntries(names.map(name => [name, [] as number[]]));
  for (let round = 0; round <= rounds; round += 1) {
    for (const name of names) {
      const figure = await contestants[name]();
      if (round > 0) figures[name]?.push(figure);
    }
  }
  return figures as Record<Name, number[]>;
}
