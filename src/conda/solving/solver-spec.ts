/**
 * Returns a match specification in words that the solver understands as conda does.
 *
 * - The solver's `=1.1.1`, `1.1.1*` and `1.1.1.*` omit versions that continue the last number with letters, such as 1.1.1k.
 *   A range contains the same versions as conda: `dev` is before all other letters, so the versions that begin with 1.1.1
 *   are those from 1.1.1dev to 1.1.2dev. A prefix that ends in a letter stays as it is: the solver finds fewer versions.
 * - In dependencies the solver takes everything up to a blank for the name: a blank follows each name.
 */
export function solverSpec(spec: string): string {
  if (spec.length > mostCharacters) return spec;
  const groups = parts.exec(spec.trim())?.groups;
  const read = groups && partsOf(groups);
  if (!read) return spec;
  const ranges = read.version.replace(terms, rangeOf);
  const isSeparate = /^(?: [^[]*)?$/.test(groups.rest ?? '') && groups.brackets === undefined;
  if (ranges === read.version && isSeparate) return spec;
  const words = [read.name, ranges, read.build].filter(part => part !== '');
  return words.join(' ') + read.brackets;
}

/** Shows the ranges of {@link solverSpec} in a text as the prefixes that they come from. */
export function withPrefixes(text: string): string {
  return text.replace(range, (whole, first: string, next: string) =>
    nextPrefix(first) === next ? `${first}.*` : whole,
  );
}

const mostCharacters = 500;
const parts =
  /^(?<name>[A-Za-z0-9_][A-Za-z0-9_.-]*)(?<rest>(?:[ =<>!~][^[\]]*)?)(?:\[(?<brackets>[^\]]*)\])?$/;
const terms = /[^,|()]+/g;
const prefixTerm = /^(?<operator>!?=)?(?<prefix>[0-9a-z][0-9a-z._!]*)(?<star>\*)?$/;
const range = />=([0-9a-z._!]+)dev,<([0-9a-z._!]+)dev(?![0-9a-z._])/g;
const versionInside = /(?:^|,) *version *= *(?:'([^']*)'|"([^"]*)"|([^,'"]*))/;

interface SpecParts {
  readonly name: string;
  readonly version: string;
  readonly build: string;
  /** With the brackets themselves; empty for none. */
  readonly brackets: string;
}

/** Returns undefined for a specification that is to stay as it is. */
function partsOf(groups: Readonly<Record<string, string | undefined>>): SpecParts | undefined {
  const { name = '', rest = '', brackets } = groups;
  // Blanks around operators are not separators.
  const tight = rest
    .replace(/ +/g, ' ')
    .replace(/ ?([,|<>=!~]) ?/g, '$1')
    .trim();
  const [, exact, exactBuild = ''] = /^=([^=|,(]+)=([^=]+)$/.exec(tight) ?? [];
  const [first = '', second = '', third] = tight.split(/ +/);
  if (third !== undefined) return undefined;
  const outside = exact ?? first;
  const build = exact === undefined ? second : exactBuild;
  // With a build after it, `=1.1.1` is exactly this version.
  if (exact === undefined && build !== '' && /(?:^|[,|(])=/.test(outside)) return undefined;
  if (brackets === undefined) return { name, version: outside, build, brackets: '' };
  const inside = versionInside.exec(brackets);
  if (inside && outside !== '') return undefined;
  const version = (inside?.[1] ?? inside?.[2] ?? inside?.[3] ?? '').replaceAll(' ', '');
  const others = inside ? brackets.replace(inside[0], '').replace(/^ *, */, '') : brackets;
  return {
    ...{ name, build },
    version: outside || version || '*',
    brackets: others.trim() === '' ? '' : `[${others}]`,
  };
}

function rangeOf(term: string): string {
  const { operator, prefix: written = '', star } = prefixTerm.exec(term)?.groups ?? {};
  if (star === undefined && operator !== '=') return term;
  const prefix = star === undefined ? written : written.replace(/\.$/, '');
  const next = nextPrefix(prefix);
  if (next === undefined) return term;
  const [first, end] = [`${prefix}dev`, `${next}dev`];
  return operator === '!=' ? `(<${first}|>=${end})` : `>=${first},<${end}`;
}

/** Returns a version with its last number one higher; undefined if it does not end in a number. */
function nextPrefix(version: string): string | undefined {
  const last = /(?<![0-9])[0-9]{1,18}$/.exec(version);
  if (!last) return undefined;
  return version.slice(0, last.index) + String(BigInt(last[0]) + 1n);
}
