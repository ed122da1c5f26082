import { Fault } from '../../foundation/fault.ts';

/**
 * Returns a match specification in words that the solver understands as conda does.
 *
 * - The solver's `=1.1.1`, `1.1.1*` and `1.1.1.*` omit versions that continue the last number with letters, such as 1.1.1k.
 *   A range contains the same versions as conda: `dev` is before all other letters, so the versions that begin with 1.1.1
 *   are those from 1.1.1dev to 1.1.2dev, and those that begin with 1.1.1a are those from 1.1.1a0dev to 1.1.1aa0dev. Zeros at
 *   the end are not part of a version: 1rc1 begins with 1.0.
 * - In dependencies the solver takes everything up to a blank for the name, as it is written: a blank follows each name, and
 *   the name is in lower case.
 * - conda ignores a namespace before the name, `conda-forge:pip`.
 */
export function solverSpec(spec: string): string {
  if (spec.length > mostCharacters) return spec;
  const groups = specPattern.exec(spec.trim().replace(namespace, ''))?.groups;
  const read = groups && partsOf(groups);
  if (!read) return spec;
  const ranges = read.version.replace(versionTerms, rangeOf);
  const isSeparate = /^(?: [^[]*)?$/.test(groups.rest ?? '') && groups.brackets === undefined;
  const name = read.name.toLowerCase();
  const isPlain = isSeparate && name === read.name && !spec.includes(':');
  if (ranges === read.version && isPlain) return spec;
  const words = [name, ranges, read.build].filter(part => part !== '');
  return words.join(' ') + read.brackets;
}

/** Shows the ranges of {@link solverSpec} in a text as the prefixes that they come from. */
export function withPrefixes(text: string): string {
  return text.replace(versionRange, (whole, first: string, end: string) => {
    const prefix = prefixBefore(end);
    return prefix !== undefined && boundsOf(prefix)?.first === first ? `${prefix}.*` : whole;
  });
}

const mostCharacters = 500;
const specPattern =
  /^(?<name>[A-Za-z0-9_][A-Za-z0-9_.-]*)(?<rest>(?:[ =<>!~][^[\]]*)?)(?:\[(?<brackets>[^\]]*)\])?$/;
const namespace = /^[A-Za-z0-9_][A-Za-z0-9_.-]*:(?=[A-Za-z0-9_])/;
const versionTerms = /[^,|()]+/g;
const prefixTerm = /^(?<operator>!?=)?(?<prefix>[0-9a-z][0-9a-z._!-]*)(?<star>\*)?$/i;
const versionRange = />=([0-9a-z._!]+dev),<([0-9a-z._!]+)dev(?![0-9a-z_]|\.[0-9a-z])/g;
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
    name,
    build,
    version: outside || version || '*',
    brackets: others.trim() === '' ? '' : `[${others}]`,
  };
}

function rangeOf(term: string): string {
  const { operator, prefix = '', star } = prefixTerm.exec(term)?.groups ?? {};
  if (star === undefined && operator !== '=') return term;
  const bounds = boundsOf(prefix.replace(/\.$/, '').replaceAll('-', '_').toLowerCase());
  if (!bounds) return term;
  const { first, end } = bounds;
  return operator === '!=' ? `(<${first}|>=${end})` : `>=${first},<${end}`;
}

/** Returns the first version that begins with a prefix, and the first one after those; undefined where no range has them. */
function boundsOf(prefix: string): { readonly first: string; readonly end: string } | undefined {
  const word = /(?<![a-z])[a-z]{1,18}$/.exec(prefix)?.[0];
  // `post` is after all words.
  if (word !== undefined && word !== 'dev' && word !== 'post') {
    return { first: `${prefix}0dev`, end: `${prefix}a0dev` };
  }
  const next = withLastNumber(prefix, number => number + 1n);
  return next === undefined
    ? undefined
    : { first: `${withoutZeros(prefix)}dev`, end: `${next}dev` };
}

/** Returns the prefix whose range ends at a version with `dev`. */
function prefixBefore(end: string): string | undefined {
  if (end.endsWith('a0')) return end.slice(0, -2);
  return withLastNumber(end, number => (number > 0n ? number - 1n : undefined));
}

/** Returns a version with another number at its end; undefined if it does not end in a number. */
function withLastNumber(
  version: string,
  other: (number: bigint) => bigint | undefined,
): string | undefined {
  const last = /(?<![0-9])[0-9]{1,18}$/.exec(version);
  const number = last ? other(BigInt(last[0])) : undefined;
  return number === undefined ? undefined : version.slice(0, last?.index) + String(number);
}

function withoutZeros(version: string): string {
  const parts = version.split('.');
  while (parts.length > 1 && /^0+$/.test(parts.at(-1) ?? '')) parts.pop();
  return parts.join('.');
}

/** Specifications as the solver reads them: it knows no channels in them. */
interface PinnedSpecs {
  /** Match specifications without channels. */
  readonly specs: readonly string[];
  /** The channel, as written, that a package must come from, by the name of the package. */
  readonly channelOf: ReadonlyMap<string, string>;
}

const channelInFront = /^(?<channel>.+)::(?<spec>[^:]+)$/s;
// Outside brackets, `channel` is a part of the name of a package.
const channelInBrackets =
  /(?<=\[(?:[^\]]*[,\s])?)channel\s*=\s*(?<quote>['"]?)(?<channel>[^'",\]]+)\k<quote>\s*,?\s*/;

/** Separates a match specification from its channel, as {@link withoutChannels} does. */
export function splitChannel(written: string): {
  readonly spec: string;
  /** Undefined for a specification without a channel. */
  readonly channel: string | undefined;
} {
  const { channel, spec } = channelInFront.exec(written)?.groups ?? {};
  if (channel !== undefined && spec !== undefined) return { channel, spec };
  const inside = channelInBrackets.exec(written)?.groups?.channel;
  if (inside === undefined) return { channel: undefined, spec: written };
  const rest = written
    .replace(channelInBrackets, '')
    .replace(/,\s*\]$/, ']')
    .replace('[]', '');
  return { channel: inside.trim(), spec: rest };
}

/**
 * Separates match specifications from the channels in them: `bioconda::samtools`, `samtools[channel=bioconda]`. Throws a
 * `Fault` (400) for a package that is required from two channels. Source: conda, Package match specifications.
 */
export function withoutChannels(specs: readonly string[]): PinnedSpecs {
  const channelOf = new Map<string, string>();
  const plain = specs.map(written => {
    const { channel, spec } = splitChannel(written);
    if (channel === undefined) return written;
    const name = /^[^ =<>!~[]+/.exec(spec)?.[0].toLowerCase() ?? spec;
    const other = channelOf.get(name);
    if (other !== undefined && other !== channel) {
      throw new Fault(
        'bad-request',
        `The package ${name} is required from two channels, ${other} and ${channel}: choose one`,
        { phase: 'request' },
      );
    }
    channelOf.set(name, channel);
    return spec;
  });
  return { specs: plain, channelOf };
}
