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
  const residuals = figures.map((figure, round) => figure - perRound * round);
  const deviation = Math.sqrt(varianceOf(figures) * dependenceOf(residuals));
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

// A correlation by chance in one of twenty lags.
const surelyCorrelated = 1.96;

/**
 * Returns by how much figures that depend on those of the rounds before increase the variance, at least 1. Rows that are removed now and
 * then rise and fall in long waves, of which half a wave looks like a trend.
 * Source: Hamed and Rao, A modified Mann-Kendall trend test for autocorrelated data (1998)
 *
 * @param residuals the figures without their trend
 */
function dependenceOf(residuals: readonly number[]): number {
  const count = residuals.length;
  if (count < 3) return 1;
  const ranks = ranksOf(residuals);
  const mean = (count + 1) / 2;
  const products = (lag: number) => {
    let sum = 0;
    for (let at = lag; at < count; at += 1) {
      sum += ((ranks[at] ?? 0) - mean) * ((ranks[at - lag] ?? 0) - mean);
    }
    return sum;
  };
  const whole = products(0);
  if (whole === 0) return 1;
  let sum = 0;
  // Of larger lags, too few pairs are left.
  for (let lag = 1; lag <= count / 4; lag += 1) {
    const correlation = products(lag) / whole;
    if (Math.abs(correlation) < surelyCorrelated / Math.sqrt(count)) continue;
    sum += (count - lag) * (count - lag - 1) * (count - lag - 2) * correlation;
  }
  return Math.max(1, 1 + (2 * sum) / (count * (count - 1) * (count - 2)));
}

/** Returns the ranks of figures, from 1; equal figures have the mean of their ranks. */
function ranksOf(figures: readonly number[]): number[] {
  const sorted = figures.toSorted((one, other) => one - other);
  const ranks = new Map<number, number>();
  for (const [at, figure] of sorted.entries()) {
    const last = sorted.lastIndexOf(figure);
    if (!ranks.has(figure)) ranks.set(figure, (at + last) / 2 + 1);
  }
  return figures.map(figure => ranks.get(figure) ?? 0);
}
