import fc from 'fast-check';

const surrogates = { first: 0xd800, last: 0xdfff } as const;
const count = surrogates.last - surrogates.first + 1;

function toCodePoint(value: unknown): number {
  const [character = ''] = typeof value === 'string' ? value : '';
  const point = character.codePointAt(0);
  const isOne = point !== undefined && character === value;
  if (!isOne || (point >= surrogates.first && point <= surrogates.last)) {
    throw new Error('not one code point');
  }
  return point < surrogates.first ? point : point - count;
}

/**
 * All that a string may consist of, as `unit: 'binary'` of fast-check, for which each test file would fill a table of a
 * million characters: a second of processor time.
 */
export const codePoint = fc
  .integer({ min: 0, max: 0x10ffff - count })
  .map(
    index => String.fromCodePoint(index < surrogates.first ? index : index + count),
    toCodePoint,
  );
