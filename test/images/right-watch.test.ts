/** How long the right to an image counts, and what a registry that refuses or is silent changes. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Fault } from '../../src/foundation/fault.ts';
import { createRightWatch } from '../../src/images/right-watch.ts';
import { digestOf } from '../../src/oci/digest.ts';
import { type Document, documentOf } from '../../src/oci/manifest.ts';
import { mediaTypes } from '../../src/oci/media-type.ts';
import type { Access } from '../../src/upstream/access.ts';
import type { JsonResponse } from '../../src/upstream/registry-client.ts';

const ownHost = 'sluice.example.com';
const [lifeMs, graceMs] = [1000, 10_000];
const password = { kind: 'password', username: 'ada', password: 'x' } as const;
const access: Access = { registry: 'r.example.com', repository: 'team/app', credentials: password };
const refusal = new Fault('denied', 'no right');
const silence = new Fault('upstream-timeout', 'no answer');
const gone = new Fault('manifest-unknown', 'no such manifest');

function world() {
  const clock = { now: 1_000_000 };
  const asked: string[] = [];
  const state: { failure?: Error | undefined; tags?: Error; wait?: Promise<void> } = {};
  const manifests = new Map<string, Document>();
  const watch = createRightWatch({
    registry: {
      async headManifest({ registry, repository }, reference) {
        asked.push(`${registry}/${repository} ${reference}`);
        await state.wait;
        if (state.failure) throw state.failure;
        const held = manifests.get(reference);
        if (registry === ownHost && !held) throw gone;
        return held ?? { digest: digestOf('x'), mediaType: mediaTypes.ociManifest };
      },
      getManifest: async (_, reference) => manifests.get(reference) ?? assert.fail(reference),
      async getJson(_, path, query) {
        asked.push(path + query);
        if (state.tags) throw state.tags;
        return {} as JsonResponse;
      },
    },
    ...{ ownHost, lifeMs, graceMs, now: () => clock.now },
  });
  const put = (type: string, content: object) => {
    const document = documentOf(Buffer.from(JSON.stringify(content)), type);
    manifests.set(document.digest, document);
    return document;
  };
  return { watch, clock, asked, state, manifests, put };
}

/** Lets what was begun without a caller end. */
const settled = () => new Promise(resolve => setImmediate(resolve));

test('an answer counts for its life, for the same image and credentials only', async () => {
  const { watch, clock, asked } = world();
  assert.equal(await watch.check(access, 'v1', false), clock.now + lifeMs);
  clock.now += lifeMs / 2;
  assert.equal(await watch.check(access, 'v1', false), clock.now + lifeMs / 2);
  assert.equal(asked.length, 1);
  for (const [other, reference] of [
    [access, 'v2'],
    [{ ...access, repository: 'team/other' }, 'v1'],
    [{ ...access, registry: 'q.example.com' }, 'v1'],
    [{ ...access, credentials: { ...password, password: 'y' } }, 'v1'],
    [{ ...access, credentials: undefined }, 'v1'],
  ] as const) {
    const before: number = asked.length;
    await watch.check(other, reference, false);
    assert.equal(asked.length, before + 1);
  }
  clock.now += lifeMs / 2;
  await watch.check(access, 'v1', false);
  assert.equal(asked.at(-1), 'r.example.com/team/app v1', 'its life has ended');
});

test('an answer that ages is renewed while nobody waits, unless the registry has just failed', async () => {
  const { watch, clock, asked, state } = world();
  const began = clock.now;
  await watch.check(access, 'v1', false);
  clock.now += lifeMs / 2 + 1;
  assert.equal(await watch.check(access, 'v1', false), began + lifeMs, 'the answer of before');
  await settled();
  assert.equal(asked.length, 2);
  assert.equal(await watch.check(access, 'v1', false), clock.now + lifeMs);
  state.failure = silence;
  clock.now += lifeMs / 2 + 1;
  for (let time = 0; time < 3; time += 1) {
    await watch.check(access, 'v1', false);
    await settled();
  }
  assert.equal(asked.length, 3);
});

test('what a registry has shown otherwise counts like an answer', async () => {
  const { watch, clock, asked } = world();
  watch.note(access, 'v1');
  assert.equal(await watch.check(access, 'v1', false), clock.now + lifeMs);
  assert.deepEqual(asked, []);
});

test('a registry that refuses ends the right at once, also one that counted before', async () => {
  const { watch, clock, state } = world();
  await watch.check(access, 'v1', true);
  clock.now += lifeMs;
  state.failure = refusal;
  const ended = { kind: 'denied', message: /r\.example\.com no longer shows team\/app:v1 to/ };
  await assert.rejects(watch.check(access, 'v1', true), ended);
  state.failure = silence;
  clock.now += lifeMs;
  await assert.rejects(watch.check(access, 'v1', false), silence, 'nothing proves the right now');
  const digest = digestOf('x');
  state.failure = refusal;
  await assert.rejects(watch.check(access, digest, false), { message: /team\/app@sha256:/ });
});

test('a refusal is not remembered: the next pull asks again', async () => {
  const { watch, clock, state } = world();
  state.failure = refusal;
  await assert.rejects(watch.check(access, 'v1', false), { kind: 'denied' });
  state.failure = undefined;
  assert.equal(await watch.check(access, 'v1', false), clock.now + lifeMs);
});

test('a silent registry refuses nobody whose right was proved not long ago', async () => {
  for (const failure of [
    ...[silence, new Fault('too-many-requests', 'later'), new Fault('internal', 'it says 500')],
    new Error('broken'),
  ]) {
    const { watch, clock, state } = world();
    await watch.check(access, 'v1', false);
    state.failure = failure;
    clock.now += graceMs - 1;
    assert.equal(await watch.check(access, 'v1', false), clock.now + lifeMs / 2);
    clock.now += 1;
    await assert.rejects(watch.check(access, 'v1', false), failure);
    assert.equal(await watch.check(access, 'v1', true), clock.now + lifeMs / 2, 'a public image');
    await assert.rejects(watch.check(access, 'unknown', false), failure);
  }
});

test('nobody waits for a registry that has just been silent', async () => {
  const { watch, clock, state, asked } = world();
  await watch.check(access, 'v1', false);
  clock.now += lifeMs;
  state.failure = silence;
  await watch.check(access, 'v1', false);
  const { promise, resolve } = Promise.withResolvers<void>();
  state.wait = promise;
  clock.now += lifeMs / 2 - 1;
  await watch.check(access, 'v1', false);
  assert.equal(asked.length, 3, 'it is asked again, beside');
  let isOver = false;
  clock.now += 1;
  const waiting = watch.check(access, 'v1', false).then(() => {
    isOver = true;
  });
  await settled();
  assert.equal(isOver, false, 'later a pull waits for the answer');
  assert.equal(asked.length, 3, 'one question for all');
  resolve();
  await waiting;
});

test('a tag may be gone while its repository is still shown', async () => {
  const { watch, clock, state, asked } = world();
  state.failure = gone;
  assert.equal(await watch.check(access, 'v1', false), clock.now + lifeMs);
  assert.deepEqual(asked, ['r.example.com/team/app v1', 'tags/list?n=1']);
  state.tags = refusal;
  await assert.rejects(watch.check(access, 'v2', false), { kind: 'denied' });
  const other = world();
  other.state.failure = refusal;
  await assert.rejects(other.watch.check(access, 'v1', false), { kind: 'denied' });
  assert.equal(other.asked.length, 1, 'only what is unknown may be a tag that is gone');
});

test('a hosted index is shown only with all its images', async () => {
  const own = { ...access, registry: ownHost };
  const { watch, manifests, put, clock } = world();
  const image = put(mediaTypes.ociManifest, { schemaVersion: 2 });
  const entry = ({ digest, mediaType, bytes }: Document) => ({
    ...{ digest, mediaType, size: bytes.length },
  });
  const inner = put(mediaTypes.ociIndex, { schemaVersion: 2, manifests: [entry(image)] });
  const note = { ...entry(image), digest: digestOf('note'), mediaType: 'text/plain' };
  const index = put(mediaTypes.ociIndex, { schemaVersion: 2, manifests: [entry(inner), note] });
  const look = (reference: string) => {
    clock.now += lifeMs;
    return watch.check(own, reference, false);
  };
  await look(index.digest);
  await look(image.digest);
  for (const { digest } of [image, inner, index]) {
    const held = manifests.get(digest);
    manifests.delete(digest);
    await assert.rejects(look(index.digest), { kind: 'denied' });
    if (held) manifests.set(digest, held);
  }
  await look(index.digest);
  // A tag is looked up like one of another registry.
  await look('v1');
  const elsewhere = world();
  await elsewhere.watch.check(access, index.digest, false);
  assert.equal(elsewhere.asked.length, 1);
});

test('a hosted index is followed four levels deep', async () => {
  const own = { ...access, registry: ownHost };
  const { watch, manifests, put, clock } = world();
  const chain = [put(mediaTypes.ociManifest, { schemaVersion: 2 })];
  for (let level = 0; level < 5; level += 1) {
    const [{ digest, mediaType, bytes } = assert.fail()] = chain;
    const entry = { digest, mediaType, size: bytes.length };
    chain.unshift(put(mediaTypes.ociIndex, { schemaVersion: 2, manifests: [entry] }));
  }
  const [root, , , , deepest, beyond] = chain;
  assert.ok(root && deepest && beyond);
  manifests.delete(beyond.digest);
  await watch.check(own, root.digest, false);
  manifests.delete(deepest.digest);
  clock.now += lifeMs;
  await assert.rejects(watch.check(own, root.digest, false), { kind: 'denied' });
});
