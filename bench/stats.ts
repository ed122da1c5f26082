export function median(values: readonly number[]): number {
  const sorted = [...values].sort((one, other) => one - other);
  const middle = Math.floor(sorted.length / 2);
  const upper = sorted[middle] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? upper) + upper) / 2;
}

/** For figures in coarse steps, such as processor time in ticks of 10 ms. */
export function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

/** Returns the ratio of the first median to the second one. */
export function ratio(one: readonly number[], other: readonly number[]): number {
  return median(one) / median(other);
}

/**
 * Measures the contestants in turns, once each round, so that disturbances of the machine affect all of them. One
 * warm-up round is not counted.
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
