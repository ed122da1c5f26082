import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { digestOf } from '../../src/oci/digest.ts';
import { call } from '../faults/http-client.ts';
import { pattern } from '../faults/scripted-upstream.ts';
import { assertAbsent, assertServed, assertStatus } from './assertions.ts';
import { chunkedBytes, uploadWays } from './blob-uploads.ts';
import { createRepository, type Send, withBasic } from './client.ts';
import { dataSet } from './data-sets.ts';
import { referrersOf, tagsOf } from './listing.ts';
import { pushBlob, pushDataSet } from './pushing.ts';
import { account, startTarget, type Target } from './target.ts';
import { challengeOf, tokenFor, withTokens } from './token-flow.ts';

let target: Target;

before(async () => {
  target = await startTarget();
});

after(async () => target[Symbol.asyncDispose]());

const throughTokens = (name: string) => target.repository(name, withTokens(account));

test('the API root confirms a login', async () => {
  const root = `${target.url}/v2/`;
  const first = await call(root);
  assert.equal(first.status, 401);
  const challenge = challengeOf(first);
  assert.equal(challenge.realm, `${target.url}/v2/token`);
  assert.notEqual(challenge.service, '');
  const token = await tokenFor(account, challenge);
  for (const authorization of [`Bearer ${token}`, `Basic ${btoa(account)}`]) {
    assert.equal((await call(root, { headers: { authorization } })).status, 200);
  }
});

test('blobs are pushed with a token for each request', async () => {
  const repository = throughTokens('uploads');
  for (const [way, upload] of Object.entries(uploadWays)) {
    const bytes = pattern(chunkedBytes, way);
    const digest = digestOf(bytes);
    assertStatus(await upload(repository, bytes, digest), 201);
    await assertServed(repository, `blobs/${digest}`, { bytes, digest });
  }
});

test('an index and its referrers are pushed, found and deleted with a token for each request', async () => {
  const set = dataSet('index with subject');
  const repository = throughTokens('everything');
  await pushDataSet(repository, set);
  assert.deepEqual(await tagsOf(repository), set.manifests.flatMap(({ tags }) => tags).toSorted());
  for (const [subject, expected] of set.referrers) {
    assert.equal((await referrersOf(repository, subject)).manifests.length, expected.length);
  }
  for (const { digest } of set.manifests.toReversed()) {
    assertStatus(await repository.send('DELETE', `manifests/${digest}`), 202);
    await assertAbsent(repository, `manifests/${digest}`);
  }
  for (const digest of set.blobs.keys()) {
    assertStatus(await repository.send('DELETE', `blobs/${digest}`), 202);
  }
});

test('the token for a mount includes the source repository', async () => {
  const bytes = pattern(512, 'mounted with a token');
  const digest = digestOf(bytes);
  const source = throughTokens('source');
  const repository = throughTokens('mounted');
  await pushBlob(source, bytes, digest);
  const query = new URLSearchParams({ mount: digest, from: source.name });
  assertStatus(await repository.send('POST', `blobs/uploads/?${query}`), 201);
  await assertServed(repository, `blobs/${digest}`, { bytes, digest });
});

test('nothing is available without credentials, or with wrong ones', async () => {
  const set = dataSet('image');
  await pushDataSet(target.repository('closed'), set);
  const [digest] = set.blobs.keys();
  for (const send of [call, withBasic('admin:wrong'), withBasic('nobody:secret')]) {
    const repository = createRepository(target.url, 'conformance/closed', send);
    for (const [method, route] of [
      ['GET', 'manifests/image'],
      ['HEAD', `blobs/${digest}`],
      ['GET', 'tags/list'],
      ['POST', 'blobs/uploads/'],
      ['PUT', 'manifests/image'],
      ['DELETE', 'manifests/image'],
    ] as const) {
      const response = await repository.send(method, route);
      assertStatus(response, 401);
      const { realm } = challengeOf(response);
      assert.equal(realm, `${target.url}/v2/token`);
    }
  }
});

test('a challenge names the required scope, also after an expired token', async () => {
  const ended: Send = (url, request) =>
    call(url, { ...request, headers: { ...request.headers, authorization: 'Bearer ended' } });
  for (const send of [call, ended]) {
    const repository = target.repository('scopes', send);
    for (const [method, route, actions] of [
      ['GET', 'manifests/image', ['pull']],
      ['POST', 'blobs/uploads/', ['pull', 'push']],
      ['DELETE', 'manifests/image', ['delete']],
    ] as const) {
      const { scope = '' } = challengeOf(await repository.send(method, route));
      const [kind, name, asked = ''] = scope.split(':');
      assert.equal(kind, 'repository', `${method} with ${send === ended ? 'a' : 'no'} token`);
      assert.equal(name, repository.name);
      assert.deepEqual(asked.split(',').toSorted(), actions);
    }
  }
});
