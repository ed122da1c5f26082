/** Whether a figure of a server grows with the work that it has done. */

/** A figure in the order of the rounds, and its trend. */
export interface Trend {
  /** The median of the slopes between all pairs of rounds (Theil and Sen): a few wild figures do not change it. */
  readonly perRound: number;
  /** How improbable so many rises are without a trend, as a normal score (Mann and Kendall); negative for a fall. */
  readonly score: number;
  readonly first: number;
  readonly last: number;
  readonly grows: boolean;
}

// A trend by chance in one of a thousand figures.
const surelyRising = 3.09;

/**
 * Returns the trend of a figure. It grows if the slope over the rounds is larger than allowed, and the rises are too many to be chance. One
 * figure decides nothing: garbage, and caches that were not full yet, make single figures higher.
 *
 * @param allowedPerRound a slope that the noise of measurements has, or that has a reason
 */
export function trendOf(figures: readonly number[], allowedPerRound: number): Trend {
  const slopes: number[] = [];
  let rises = 0;
  for (let one = 0; one < figures.length; one += 1) {
    for (let other = one + 1; other < figures.length; other += 1) {
      const rise = (figures[other] ?? 0) - (figures[one] ?? 0);
      slopes.push(rise / (other - one));
      rises += Math.sign(rise);
    }
  }
  slopes.sort((one, other) => one - other);
  const middle = slopes.length / 2;
  const perRound =
    slopes.length === 0
      ? 0
      : ((slopes[Math.ceil(middle) - 1] ?? 0) + (slopes[Math.floor(middle)] ?? 0)) / 2;
  const deviation = Math.sqrt(varianceOf(figures));
  const score = deviation === 0 ? 0 : (rises - Math.sign(rises)) / deviation;
  return {
    ...{ perRound, score },
    first: figures[0] ?? 0,
    last: figures.at(-1) ?? 0,
    grows: perRound > allowedPerRound && score > surelyRising,
  };
}

/** Source: Kendall, Rank Correlation Methods: the variance of the sum of signs, less what equal figures take away. */
function varianceOf(figures: readonly number[]): number {
  const term = (count: number) => count * (count - 1) * (2 * count + 5);
  const equal = Map.groupBy(figures, figure => figure).values();
  const ties = [...equal].reduce((sum, { length }) => sum + term(length), 0);
  return (term(figures.length) - ties) / 18;
}
