import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { SecretMask } from '../../src/buildkit/progress/secret-mask.ts';
import { boundMs, longestBlock } from '../world/longest-block.ts';

// All secrets of a build together.
const mostLength = 48 * 1024;

describe('the mask of secrets', () => {
  test('masks what replacing one secret after the other masks, the longest first', () => {
    // No two of these overlap, but one contains the other.
    const secrets = ['abcdefgh', 'abcd', 'efgh', 'ABCDE', 'BCDE', '1234', '12345678'];
    const text = fc.array(fc.constantFrom(...secrets, 'abc', '-', '\n'));
    fc.assert(
      fc.property(fc.shuffledSubarray(secrets), text, (some, parts) => {
        const shown = parts.join('');
        assert.equal(maskOf(some).apply(shown), oneAfterTheOther(some, shown));
      }),
    );
  });

  test('masks each character of each secret, also where secrets overlap', () => {
    const letters = (min: number, max: number) =>
      fc.string({ unit: fc.constantFrom('a', 'b'), minLength: min, maxLength: max });
    fc.assert(
      fc.property(fc.array(letters(4, 7), { maxLength: 8 }), letters(0, 60), (some, shown) => {
        assert.equal(maskOf(some).apply(shown), unions(some, shown));
      }),
      { numRuns: 1000 },
    );
    assert.equal(maskOf(['abcd', 'cdefgh']).apply('abcdefgh!'), '***!');
    assert.equal(maskOf(['abcd', 'efgh']).apply('abcdefgh!'), '******!');
  });

  test('masks a secret that was added after the first text', () => {
    const mask = maskOf(['first']);
    assert.equal(mask.apply('first second'), '*** second');
    mask.add('second');
    assert.equal(mask.apply('first second'), '*** ***');
  });

  const long = 'a'.repeat(64 * 1024);
  for (const [what, secret, text] of [
    ['of many lines', numbers(), numbers().repeat(2)],
    ['of lines that begin with the same letters', similarLines(), long],
    ['of one line', 'a'.repeat(mostLength), long],
  ] as const) {
    test(`the largest secrets ${what} do not block other callers`, async () => {
      const { cpuMs } = await longestBlock(async () => {
        const mask = maskOf([secret]);
        mask.apply(text);
      });
      assert.ok(cpuMs < boundMs(50), `the event loop was blocked for ${cpuMs} ms`);
    });
  }
});

function maskOf(secrets: readonly string[]): SecretMask {
  const mask = new SecretMask();
  for (const secret of secrets) mask.add(secret);
  return mask;
}

function oneAfterTheOther(secrets: readonly string[], text: string): string {
  const longestFirst = [...secrets].sort((one, other) => other.length - one.length);
  return longestFirst.reduce((rest, secret) => rest.replaceAll(secret, '***'), text);
}

/** Masks each place of each secret. Places that share a character are one. */
function unions(secrets: readonly string[], text: string): string {
  // 1: in a secret. 2: in the same secret as the character before it.
  const marks = new Uint8Array(text.length);
  for (const secret of secrets) {
    for (let at = text.indexOf(secret); at >= 0; at = text.indexOf(secret, at + 1)) {
      marks[at] = Math.max(marks[at] ?? 0, 1);
      marks.fill(2, at + 1, at + secret.length);
    }
  }
  return [...text].map((char, at) => [char, '***', ''][marks[at] ?? 0]).join('');
}

/** Different lines of four characters each. */
function numbers(): string {
  const lines = Array.from({ length: mostLength / 5 }, (_, line) =>
    line.toString(36).padStart(4, '0'),
  );
  return lines.join('\n');
}

function similarLines(): string {
  let text = '';
  for (let length = 4; text.length + length < mostLength; length += 1) {
    text += `${'a'.repeat(length)}b\n`;
  }
  return text;
}
