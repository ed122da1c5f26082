/** A version of Python as numbers: its release, and the place of a version before the release, such as `rc1`. */
type Parsed = readonly [release: readonly number[], before: number];

const grammar = /^v?(\d{1,9}(?:\.\d{1,9}){0,9})(?:(a|b|rc)(\d{1,9}))?\+?$/;
const stages: Readonly<Record<string, number>> = { a: -3e9, b: -2e9, rc: -1e9 };

function parsed(text: string): Parsed | undefined {
  const [, release, stage, number] = grammar.exec(text.trim()) ?? [];
  if (release === undefined) return undefined;
  const before = stage === undefined ? 0 : (stages[stage] ?? 0) + Number(number);
  return [release.split('.').map(Number), before];
}

function compare([one, before]: Parsed, [other, otherBefore]: Parsed): number {
  for (let at = 0; at < Math.max(one.length, other.length); at += 1) {
    const difference = (one[at] ?? 0) - (other[at] ?? 0);
    if (difference !== 0) return difference;
  }
  return before - otherBefore;
}

/** One condition on a version: `>=3.9`. */
export interface VersionCondition {
  readonly operator: string;
  readonly version: string;
}

const condition = /^(===|~=|==|!=|<=|>=|<|>) {0,9}([0-9A-Za-z.*+]{1,60})$/;

/** Returns the conditions in a text such as `>=3.9,<4`; undefined for a text that has others. Source: PyPA specifications, Version specifiers. */
export function versionConditions(text: string): readonly VersionCondition[] | undefined {
  const conditions: VersionCondition[] = [];
  for (const part of text.split(',').map(it => it.trim())) {
    if (part === '') continue;
    const [, operator, version] = condition.exec(part) ?? [];
    if (operator === undefined || version === undefined) return undefined;
    if (parsed(version.replace(/\.\*$/, '')) === undefined) return undefined;
    conditions.push({ operator, version });
  }
  return conditions;
}

/** Returns whether a version meets a condition; undefined where one of both is not a version. */
export function meets(text: string, { operator, version }: VersionCondition): boolean | undefined {
  const isPrefix = version.endsWith('.*');
  const [here, there] = [parsed(text), parsed(isPrefix ? version.slice(0, -2) : version)];
  if (here === undefined || there === undefined) return undefined;
  const [release] = here;
  const startsWith = (length: number) =>
    there[0].slice(0, length).every((number, at) => number === (release[at] ?? 0));
  const order = compare(here, there);
  switch (operator) {
    case '===':
    case '==':
      return isPrefix ? startsWith(there[0].length) : order === 0;
    case '!=':
      return isPrefix ? !startsWith(there[0].length) : order !== 0;
    case '~=':
      return order >= 0 && startsWith(Math.max(1, there[0].length - 1));
    case '<=':
      return order <= 0;
    case '>=':
      return order >= 0;
    case '<':
      return order < 0;
    case '>':
      return order > 0;
    default:
      return undefined;
  }
}

/** Returns conditions as Conda writes them. */
export function condaVersions(conditions: readonly VersionCondition[]): string {
  return conditions
    .map(({ operator, version }) => {
      if (operator === '==' && version.endsWith('.*')) return version;
      return `${operator === '===' ? '==' : operator}${version}`;
    })
    .join(',');
}
