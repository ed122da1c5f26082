import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import {
  digestOf,
  isDigest,
  parseDigest,
  referrersTag,
  splitDigest,
} from '../../src/oci/digest.ts';
import { documentOf } from '../../src/oci/manifest.ts';
import { OciSyntaxError } from '../../src/oci/syntax-error.ts';
import { digests } from './arbitraries.ts';

test('digests: the parts joined together are the digest', () => {
  fc.assert(
    fc.property(digests, digest => {
      const { algorithm, hex } = splitDigest(digest);
      assert.equal(`${algorithm}:${hex}`, digest);
      assert.equal(parseDigest(digest), digest);
    }),
  );
});

test('digests: the tag of referrers has a hyphen where the digest has a colon', () => {
  const hex = 'ab'.repeat(32);
  assert.equal(referrersTag(parseDigest(`sha256:${hex}`)), `sha256-${hex}`);
});

test('digests: computed values are digests, and differ for different content', () => {
  fc.assert(
    fc.property(fc.uint8Array(), fc.uint8Array(), (one, other) => {
      for (const algorithm of ['sha256', 'sha512'] as const) {
        const digest = digestOf(one, algorithm);
        assert.ok(isDigest(digest));
        assert.equal(splitDigest(digest).algorithm, algorithm);
        assert.equal(digest === digestOf(other, algorithm), Buffer.compare(one, other) === 0);
      }
    }),
  );
});

// Source: OCI image specification, descriptor.md and config.md; `printf '' | sha256sum`.
test('digests: known values', () => {
  const empty = 'sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855';
  assert.equal(digestOf(''), empty);
  assert.equal(
    digestOf('{}'),
    'sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a',
  );
  assert.equal(
    digestOf('', 'sha512'),
    'sha512:cf83e1357eefb8bdf1542850d66d8007d620e4050b5715dc83f4a921d36ce9ce47d0d13c5d85f2b0ff8318d2877eec2f63b931bd47417a81a538327af927da3e',
  );
  assert.deepEqual(documentOf(Buffer.alloc(0), 'a/b'), {
    bytes: Buffer.alloc(0),
    mediaType: 'a/b',
    digest: empty,
  });
});

test('digests: anything else is refused with a sentence that does not repeat long input', () => {
  const hex = 'a'.repeat(64);
  for (const text of [
    '',
    hex,
    'sha256:',
    `sha256:${hex}a`,
    `sha256:${hex.slice(1)}`,
    `sha256:${hex.toUpperCase()}`,
    `SHA256:${hex}`,
    `sha256:${hex}\n`,
    ` sha256:${hex}`,
    `sha512:${hex}`,
    `sha256:${hex}${hex}`,
    `md5:${hex.slice(32)}`,
    `sha384:${hex}${hex.slice(32)}`,
    `sha256:../${hex.slice(3)}`,
    'a'.repeat(100_000),
  ]) {
    assert.ok(!isDigest(text), text);
    assert.throws(
      () => parseDigest(text),
      (error: unknown) =>
        error instanceof OciSyntaxError && error.subject === 'digest' && error.message.length < 300,
      text,
    );
  }
});

test('digests: the refusal says how many digits each algorithm has', () => {
  assert.throws(
    () => parseDigest('x'),
    /sha256: and 64 lower-case hex digits, or sha512: and 128$/,
  );
});
