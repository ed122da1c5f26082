const factors: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};

/** Returns the milliseconds of a time such as `500ms`, `30s`, `15m`, `36h` or `90d`; undefined for other text. */
export function parseDuration(text: string): number | undefined {
  return scaled(text, factors, unit => unit);
}

/** Returns a number with a unit, multiplied by the factor of the unit; undefined for other text. */
export function scaled(
  value: number | string,
  unitFactors: Readonly<Record<string, number>>,
  spelling: (unit: string) => string,
): number | undefined {
  const match = /^(\d+(?:\.\d+)?)\s*([A-Za-z]*)$/.exec(String(value).trim());
  const factor = unitFactors[spelling(match?.[2] ?? '')];
  return match && factor !== undefined ? Math.round(Number(match[1]) * factor) : undefined;
}
