import fc from 'fast-check';
import type { Digest } from '../../src/oci/digest.ts';

const hex = (length: number) =>
  fc.stringMatching(new RegExp(`^[0-9a-f]{${length}}$`), { size: 'max' });

/** Digests of both algorithms. */
export const digests: fc.Arbitrary<Digest> = fc.oneof(
  hex(64).map(text => `sha256:${text}` as Digest),
  hex(128).map(text => `sha512:${text}` as Digest),
);

const keys = fc.oneof(
  fc.constantFrom('__proto__', 'constructor', 'toJSON', 'mediaType', 'config', 'a'),
  // A name that is an array index would be moved to the front: that is said where JSON is written.
  fc.string().filter(text => !/^\d+$/.test(text)),
);
const numbers = fc.oneof(
  fc.constantFrom('9007199254740993', '1e400', '1.10', '-0', '1E5', '0.1', '123456789012345678901'),
  fc.stringMatching(/^-?(0|[1-9][0-9]{0,24})(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,3})?$/),
);

/** Texts of JSON objects as a compact writer spells them: with any numbers, no member twice. */
export const jsonObjects: fc.Arbitrary<string> = fc.letrec<{ value: string; object: string }>(
  tie => ({
    value: fc.oneof(
      { maxDepth: 4, withCrossShrink: true },
      fc.constantFrom('null', 'true', 'false', '""'),
      numbers,
      fc.string().map(text => JSON.stringify(text)),
      fc.array(tie('value'), { maxLength: 4 }).map(items => `[${items.join(',')}]`),
      tie('object'),
    ),
    object: fc
      .uniqueArray(fc.tuple(keys, tie('value')), { maxLength: 5, selector: ([key]) => key })
      .map(members => `{${members.map(([k, v]) => `${JSON.stringify(k)}:${v}`).join(',')}}`),
  }),
).object;
