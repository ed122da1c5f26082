import { projectVersion } from './project-version.ts';

const parts = /^(\d+)!([\d.]*)(?:(a|b|rc)(\d+))?(?:\.post(\d+))?(?:\.dev(\d+))?(?:\+(.*))?$/;
const preRanks: Readonly<Record<string, number>> = { a: 1, b: 2, rc: 3 };

/** What decides the order of a version. */
interface OrderedVersion {
  readonly text: string;
  readonly isPre: boolean;
  /** Epoch, pre-release, post-release and development release are compared after the numbers of the release. */
  readonly epoch: number;
  readonly release: readonly number[];
  readonly rest: readonly number[];
  readonly local: string;
}

/**
 * Returns versions in the order of the specification, the newest first, without those that it does not know. Pre-releases are left out
 * where there are others, as solvers do. Source: PyPA specifications, Version specifiers.
 */
export function newestProjectVersions(versions: Iterable<string>): readonly string[] {
  const known = [...versions].flatMap(text => ordered(text) ?? []);
  const stable = known.filter(({ isPre }) => !isPre);
  return (stable.length > 0 ? stable : known)
    .sort((one, other) => compare(other, one))
    .map(({ text }) => text);
}

function ordered(text: string): OrderedVersion | undefined {
  const found = parts.exec(projectVersion(text) ?? '');
  if (found === null) return undefined;
  const [, epoch, release = '', preWord, preNumber, post, dev, local = ''] = found;
  const isDevAlone = preWord === undefined && post === undefined && dev !== undefined;
  const pre = preWord === undefined ? (isDevAlone ? 0 : 4) : (preRanks[preWord] ?? 0);
  return {
    text,
    isPre: preWord !== undefined || dev !== undefined,
    epoch: Number(epoch),
    release: release.split('.').map(Number),
    rest: [
      pre,
      Number(preNumber ?? 0),
      post === undefined ? -1 : Number(post),
      dev === undefined ? Number.POSITIVE_INFINITY : Number(dev),
    ],
    local,
  };
}

function compare(one: OrderedVersion, other: OrderedVersion): number {
  const local = one.local === other.local ? 0 : one.local < other.local ? -1 : 1;
  return (
    one.epoch - other.epoch ||
    compareNumbers(one.release, other.release) ||
    compareNumbers(one.rest, other.rest) ||
    local
  );
}

function compareNumbers(one: readonly number[], other: readonly number[]): number {
  for (let at = 0; at < Math.max(one.length, other.length); at += 1) {
    const [mine = 0, theirs = 0] = [one[at], other[at]];
    if (mine !== theirs) return mine < theirs ? -1 : 1;
  }
  return 0;
}
