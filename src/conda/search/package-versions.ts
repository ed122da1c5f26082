/** A version of a package in one subdirectory of a channel. */
export interface FoundVersion {
  readonly version: string;
  /** Bytes of the archive of its newest build; undefined if the channel does not say. */
  readonly size: number | undefined;
}

// A version is a part of a request, so it has these characters only.
const plainVersion = /^[A-Za-z0-9_.!+]{1,100}$/;

/** Maximum number of versions that are shown. */
export const mostVersions = 40;

/**
 * Returns the newest versions in a shard, each once, newest first, and one more than are shown if there are more. Ignores
 * what is not a record.
 */
export function versionsIn(shard: unknown): readonly FoundVersion[] {
  const found = new Map<string, FoundVersion & { readonly made: number }>();
  const { removed } = membersOf(shard);
  const gone = new Set<unknown>(Array.isArray(removed) ? removed : []);
  for (const section of ['packages', 'packages.conda']) {
    for (const [fileName, record] of Object.entries(membersOf(membersOf(shard)[section]))) {
      if (gone.has(fileName)) continue;
      const { version, size, timestamp } = membersOf(record);
      if (typeof version !== 'string' || !plainVersion.test(version)) continue;
      const made = typeof timestamp === 'number' ? timestamp : 0;
      const known = found.get(version);
      if (known && known.made > made) continue;
      found.set(version, { version, size: typeof size === 'number' ? size : undefined, made });
    }
  }
  return [...found.values()]
    .sort((a, b) => compareVersions(b.version, a.version))
    .slice(0, mostVersions + 1)
    .map(({ version, size }) => ({ version, size }));
}

function membersOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}

/**
 * Compares two versions as conda does: numbers by value, `dev` before other words, words before numbers, `post` last.
 * Source: conda, VersionOrder.
 */
export function compareVersions(one: string, other: string): number {
  const [a, b] = [partsOf(one), partsOf(other)];
  for (let at = 0; at < Math.max(a.length, b.length); at += 1) {
    const order = comparePieces(a[at] ?? [], b[at] ?? []);
    if (order !== 0) return order;
  }
  return 0;
}

type Piece = readonly [kind: number, value: number, word: string];
const zero: Piece = [2, 0, ''];

/** Returns the epoch and the parts between dots, each as its words and numbers. */
function partsOf(version: string): readonly (readonly Piece[])[] {
  const [, epoch = '0', rest = ''] = /^(?:(\d+)!)?(.*)$/s.exec(version.toLowerCase()) ?? [];
  return [[numberPiece(epoch)], ...rest.split(/[._+-]/).map(piecesOf)];
}

function piecesOf(part: string): readonly Piece[] {
  const pieces = (part.match(/\d+|\D+/g) ?? []).map((text): Piece => {
    if (/^\d/.test(text)) return numberPiece(text);
    return [text === 'dev' ? 0 : text === 'post' ? 3 : 1, 0, text];
  });
  // `1.a1` is `1.0a1`.
  return pieces[0] && pieces[0][0] !== 2 ? [zero, ...pieces] : pieces;
}

function numberPiece(digits: string): Piece {
  return [2, Number(digits), ''];
}

function comparePieces(one: readonly Piece[], other: readonly Piece[]): number {
  for (let at = 0; at < Math.max(one.length, other.length); at += 1) {
    const [kind, value, word] = one[at] ?? zero;
    const [otherKind, otherValue, otherWord] = other[at] ?? zero;
    if (kind !== otherKind) return kind - otherKind;
    if (value !== otherValue) return value - otherValue;
    if (word !== otherWord) return word < otherWord ? -1 : 1;
  }
  return 0;
}
