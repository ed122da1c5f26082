import assert from 'node:assert/strict';
import { test } from 'node:test';
import { contextOptions, readNamedContexts } from '../../src/builds/plan/build-options.ts';
import { planBuild } from '../../src/builds/plan/plan.ts';
import { contextName } from '../../src/builds/recipe/dockerfile/base-images.ts';
import { Fault } from '../../src/foundation/fault.ts';
import { digestOf } from '../../src/oci/digest.ts';

// What ParseNormalizedNamed and FamiliarString of github.com/distribution/reference make of them.
const names: readonly [image: string, name: string][] = [
  ['alpine', 'alpine'],
  ['alpine:latest', 'alpine'],
  ['docker.io/library/alpine:latest', 'alpine'],
  ['index.docker.io/alpine:3', 'alpine:3'],
  ['library/alpine', 'alpine'],
  ['docker/dockerfile:1', 'docker/dockerfile:1'],
  ['docker.io/library/deep/er', 'library/deep/er'],
  ['registry-1.docker.io/library/alpine', 'registry-1.docker.io/library/alpine'],
  ['Example.COM/x', 'Example.COM/x'],
  ['localhost/x:latest', 'localhost/x'],
  ['127.0.0.1:5000/library/x:latest', '127.0.0.1:5000/library/x'],
  [`alpine:latest@sha256:${'0'.repeat(64)}`, `alpine:latest@sha256:${'0'.repeat(64)}`],
];

for (const [image, name] of names) {
  test(`BuildKit looks for ${image} as ${name}`, () => assert.equal(contextName(image), name));
}

const places = { repository: 'registry.example.com/builds', cache: undefined, frozen: {} };
const containerFile = (text: string) => Buffer.from(text).toString('base64');
const dockerfile = containerFile('FROM node:24 AS one\nFROM one\n');
const plan = (namedContexts: Record<string, string>, file = dockerfile) =>
  planBuild({ containerFile: file, namedContexts }, places);

test('named contexts are equal under all spellings of their names', () => {
  const read = readNamedContexts({ 'docker.io/library/node:24': 'b', alpine: 'x.io/a:1' });
  assert.deepEqual(read, { alpine: 'x.io/a:1', 'node:24': 'docker.io/library/b:latest' });
  assert.deepEqual(contextOptions(read), {
    'context:alpine': 'x.io/a:1',
    'context:node:24': 'docker.io/library/b:latest',
  });
  const keys = [{ 'node:24': 'x.io/a' }, { 'library/node:24': 'x.io/a:latest' }].map(
    contexts => plan(contexts).key,
  );
  assert.equal(keys[0], keys[1]);
});

test('they change the key and the pulled images', () => {
  const without = plan({});
  assert.equal(without.key, planBuild({ containerFile: dockerfile }, places).key);
  const replaced = plan({ 'node:24': 'x.io/a:1' });
  const other = plan({ 'node:24': 'x.io/a:2' });
  const stage = plan({ one: 'x.io/a:1' });
  assert.equal(new Set([without, replaced, other, stage].map(({ key }) => key)).size, 4);
  assert.ok(replaced.origin.kind === 'recipe');
  assert.deepEqual(replaced.origin.baseImages, ['x.io/a:1']);
  assert.deepEqual(replaced.origin.namedContexts, { 'node:24': 'x.io/a:1' });
});

test('a build context changes the key by the digest of its tar file', () => {
  const context = { digest: digestOf('a'), tarDigest: digestOf('b') };
  const planned = planBuild({ containerFile: dockerfile, context }, places);
  const packedElse = { ...context, digest: digestOf('c') };
  assert.equal(
    planBuild({ containerFile: dockerfile, context: packedElse }, places).key,
    planned.key,
  );
  assert.notEqual(plan({}).key, planned.key);
  assert.ok(planned.origin.kind === 'recipe');
  assert.equal(planned.origin.context, digestOf('a'));
});

const refused: readonly [what: string, contexts: Record<string, string>, message: RegExp][] = [
  ['a name that is none', { 'a b': 'x' }, /'namedContexts\.a b': Invalid image name/],
  ['one platform of an image', { 'a::linux/amd64': 'x' }, /'namedContexts\.a::linux\/amd64'/],
  ['an image that is none', { a: 'https://x.io' }, /'namedContexts\.a': .*protocol/],
  ['a name that is not an image', { 'scratch:latest': 'x' }, /'scratch' cannot be replaced: name/],
  ['the build context', { context: 'x' }, /'context' cannot be replaced/],
  ['two names for one image', { alpine: 'x', 'alpine:latest': 'y' }, /two names for one/],
];

for (const [what, contexts, message] of refused) {
  test(`refused: ${what}`, () => {
    assert.throws(
      () => plan(contexts),
      (error: unknown) => error instanceof Fault && message.test(error.message),
    );
  });
}

test("only Docker's frontend reads the file, under any name", () => {
  const file = containerFile('# syntax=docker/dockerfile:1\nFROM alpine\n');
  const evil = { 'docker.io/docker/dockerfile:1': 'evil.example.com/frontend:1' };
  assert.throws(
    () => plan(evil, file),
    /the syntax evil\.example\.com\/frontend:1 is not allowed on this server/,
  );
  assert.ok(plan({ 'docker/dockerfile:1': 'docker/dockerfile:1.7' }, file));
});
