import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import {
  canonicalRegistry,
  formatReference,
  isRepository,
  isTag,
  parseReference,
  type Reference,
} from '../../src/oci/reference.ts';
import { OciSyntaxError } from '../../src/oci/syntax-error.ts';
import { processorMs } from '../world/processor-time.ts';
import { digests } from './arbitraries.ts';

const words = fc.stringMatching(/^[a-z0-9]{1,8}$/);
const separators = fc.constantFrom('.', '_', '__', '-', '---');
const components = fc
  .tuple(words, fc.array(fc.tuple(separators, words), { maxLength: 2 }))
  .map(([first, rest]) => first + rest.flat().join(''));
const paths = (minLength: number) =>
  fc.array(components, { minLength, maxLength: 4 }).map(parts => parts.join('/'));
const tags = fc.stringMatching(/^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$/);
const ports = fc.option(fc.integer({ min: 1, max: 65_535 }), { nil: undefined });
const hosts = fc.oneof(
  fc.constantFrom('localhost', 'ghcr.io', 'quay.io', '10.0.0.1', '[::1]', '[fe80::1:2]'),
  fc.stringMatching(/^[a-z][a-z0-9]{0,8}\.[a-z]{2,5}$/),
);
const registries = fc
  .tuple(hosts, ports)
  .map(([host, port]) => (port === undefined ? host : `${host}:${port}`));

const references: fc.Arbitrary<Reference> = fc
  .record({
    registry: registries,
    repository: paths(1),
    tag: fc.option(tags, { nil: undefined }),
    digest: fc.option(digests, { nil: undefined }),
  })
  .map(({ registry, repository, tag, digest }) => ({
    registry,
    repository,
    ...(tag === undefined && digest === undefined ? { tag: 'latest' } : {}),
    ...(tag === undefined ? {} : { tag }),
    ...(digest === undefined ? {} : { digest }),
  }));

test('references: a formatted reference parses to the same reference', () => {
  fc.assert(
    fc.property(references, reference => {
      assert.deepEqual(parseReference(formatReference(reference)), reference);
    }),
  );
});

test('references: parsing is stable after one round, and fails only with a sentence', () => {
  const pieces = fc.constantFrom('a', 'B', '.', '-', '_', '/', ':', '@', '0', 'sha256:', '[', ']');
  fc.assert(
    fc.property(
      fc.oneof(
        fc.string(),
        fc.array(pieces).map(some => some.join('')),
      ),
      text => {
        try {
          const once = parseReference(text);
          assert.deepEqual(parseReference(formatReference(once)), once);
          assert.ok(URL.canParse(`https://${once.registry}/v2/${once.repository}/`), text);
        } catch (error) {
          assert.ok(error instanceof OciSyntaxError, String(error));
          assert.equal(error.subject, 'reference');
        }
      },
    ),
    { numRuns: 2000 },
  );
});

test('references: docker.io has one name in all its spellings', () => {
  const plain = { registry: 'docker.io', repository: 'library/alpine', tag: '3.20' };
  for (const text of [
    'alpine:3.20',
    'library/alpine:3.20',
    'docker.io/alpine:3.20',
    'docker.io/library/alpine:3.20',
    'index.docker.io/alpine:3.20',
    'registry-1.docker.io/library/alpine:3.20',
    'DOCKER.IO/alpine:3.20',
  ]) {
    assert.deepEqual(parseReference(text), plain, text);
  }
  assert.equal(parseReference('biocontainers/blast').repository, 'biocontainers/blast');
  assert.equal(parseReference('quay.io/alpine').repository, 'alpine');
  assert.equal(canonicalRegistry('Index.Docker.IO'), 'docker.io');
  assert.equal(canonicalRegistry('GHCR.io'), 'ghcr.io');
});

test('references: registry hosts and other first segments', () => {
  const parts = (text: string) => {
    const { registry, repository, tag, digest } = parseReference(text);
    return [registry, repository, tag, digest];
  };
  const digest = `sha256:${'a'.repeat(64)}`;
  assert.deepEqual(parts('localhost/a'), ['localhost', 'a', 'latest', undefined]);
  assert.deepEqual(parts('localhost:5000'), ['docker.io', 'library/localhost', '5000', undefined]);
  assert.deepEqual(parts('host:5000/a:b'), ['host:5000', 'a', 'b', undefined]);
  assert.deepEqual(parts('host/a'), ['docker.io', 'host/a', 'latest', undefined]);
  assert.deepEqual(parts('[::1]:5000/a'), ['[::1]:5000', 'a', 'latest', undefined]);
  assert.deepEqual(parts(`a.b/c@${digest}`), ['a.b', 'c', undefined, digest]);
  assert.deepEqual(parts(`a.b/c:1@${digest}`), ['a.b', 'c', '1', digest]);
});

const invalid: Readonly<Record<string, RegExp>> = {
  '': /it is empty/,
  'https://quay.io/a': /remove the protocol/,
  'a b': /space/,
  'a:\tb': /space/,
  Ubuntu: /lower case/,
  'quay.io/Org/a': /lower case/,
  'Org/a': /lower case/,
  'quay.io/../a': /repository/,
  'a..b': /repository/,
  '..': /repository/,
  '../a': /registry host/,
  'a//b': /repository/,
  'a/': /repository/,
  '/a': /repository/,
  'quay.io/': /repository/,
  '-a': /repository/,
  'a-': /repository/,
  a___b: /repository/,
  'a._b': /repository/,
  'é/a': /repository/,
  'a%2fb': /repository/,
  'a?b': /repository/,
  'a\0b': /repository/,
  'a:': /not a tag/,
  ':a': /repository/,
  'a:-b': /not a tag/,
  'a:b@': /not a digest/,
  'a@sha256:abc': /not a digest/,
  [`a@sha256:${'A'.repeat(64)}`]: /not a digest/,
  [`a@md5:${'a'.repeat(32)}`]: /not a digest/,
  [`a@sha256:${'a'.repeat(64)}@sha256:${'a'.repeat(64)}`]: /not a digest/,
  [`a:${'t'.repeat(129)}`]: /not a tag/,
  ['a'.repeat(300)]: /longer than 255/,
  [`quay.io/${'a'.repeat(300)}`]: /longer than 255/,
  [`${'a'.repeat(300)}.io/a`]: /registry host/,
  'host:0/a': /registry host/,
  'host:65536/a': /registry host/,
  'host:123456/a': /registry host/,
  'host:/a': /registry host/,
  'host:x/a': /registry host/,
  ':5000/a': /registry host/,
  'a..io/b': /registry host/,
  '-a.io/b': /registry host/,
  'a.io./b': /registry host/,
  '[::1/a': /registry host/,
  '[::g]/a': /registry host/,
  '[1.2.3.4]/a': /registry host/,
  'user:secret@host.io/a': /not a digest/,
  // No URL can be made of these: the last label makes them addresses.
  '1.2.3.256/a': /registry host/,
  'host.1/a': /registry host/,
};

for (const [text, why] of Object.entries(invalid)) {
  test(`references: ${JSON.stringify(text.slice(0, 40))} is refused`, () => {
    assert.throws(
      () => parseReference(text),
      (error: unknown) => {
        assert.ok(error instanceof OciSyntaxError, String(error));
        assert.match(error.message, why);
        assert.ok(error.message.length < 300, 'the message does not repeat long input');
        return true;
      },
    );
  });
}

test('references: names and tags alone', () => {
  assert.ok(isRepository('a/b_c/d__e/f-g.h'));
  assert.ok(!isRepository('a/b/'));
  assert.ok(!isRepository(`${'a/'.repeat(200)}a`));
  assert.ok(isTag('_A.b-c'));
  assert.ok(!isTag('.a'));
  assert.ok(!isTag('a\n'));
});

test('references: hostile names are refused quickly', () => {
  for (const text of [
    `${'a-'.repeat(100_000)}!`,
    `${'a_'.repeat(60)}!/b`,
    `${'a-'.repeat(120)}!.io/b`,
    `${'/'.repeat(100_000)}`,
    `a:${'b'.repeat(1_000_000)}!`,
  ]) {
    const ms = processorMs(() => assert.throws(() => parseReference(text), OciSyntaxError));
    assert.ok(ms < 1000, `${text.slice(0, 6)}: ${ms} ms`);
  }
});
