import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { digestOf } from '../../src/oci/digest.ts';
import { boundMs } from '../world/longest-block.ts';
import { startWatchedSluice, type WatchedSluice } from '../world/watched-sluice.ts';
import { administered, expect, manifestType, Repository } from './push-client.ts';

let server: WatchedSluice;
before(async () => {
  server = await startWatchedSluice({ config: administered });
});
after(() => server[Symbol.asyncDispose]());

const empty = Buffer.from('{}');
const subject = { mediaType: manifestType, digest: digestOf('subject'), size: 5 };

async function push(repository: Repository, annotations: object, artifactType = 'a/b') {
  const config = {
    mediaType: 'application/vnd.oci.empty.v1+json',
    digest: digestOf(empty),
    size: 2,
  };
  const manifest = Buffer.from(
    JSON.stringify({
      ...{ schemaVersion: 2, mediaType: manifestType, artifactType },
      ...{ config, layers: [], subject, annotations },
    }),
  );
  const headers = { 'content-type': manifestType };
  const digest = digestOf(manifest);
  expect(await repository.send('PUT', `manifests/${digest}`, manifest, headers), 201);
  return digest;
}

interface Listed {
  readonly digest: string;
  readonly artifactType?: string;
  readonly annotations?: Record<string, string>;
}

/** Every page of the list. */
async function pages(repository: Repository, query = ''): Promise<Listed[][]> {
  const all: Listed[][] = [];
  let route: string | undefined = `${repository.url}/referrers/${subject.digest}${query}`;
  while (route !== undefined) {
    const reply = await repository.get(route);
    expect(reply, 200);
    assert.ok(reply.body.length < 1.5 * 1024 * 1024, `a page of ${reply.body.length} bytes`);
    all.push(JSON.parse(reply.body.toString()).manifests);
    const [, target] = /^<([^>]+)>/.exec(String(reply.headers.link ?? '')) ?? [];
    route = target;
  }
  return all;
}

test('a list of referrers has pages of limited size', async () => {
  const repository = new Repository(server.sluice, 'team/app');
  expect(await repository.pushBlob(empty), 201);
  const digests: string[] = [];
  for (let count = 0; count < 24; count += 1) {
    const type = count % 2 === 0 ? 'a/b' : 'c/d';
    digests.push(await push(repository, { a: `${count} ${'x'.repeat(120_000)}` }, type));
  }
  await pages(repository);
  await server.turns();
  const all = await pages(repository);
  const { longestMs } = await server.turns();
  assert.ok(longestMs <= boundMs(50), `the event loop was held for ${longestMs} ms`);
  assert.equal(all.length, 3);
  const listed = all.flat();
  assert.deepEqual(
    listed.map(({ digest }) => digest),
    digests.toSorted(),
  );
  assert.ok(listed.every(({ annotations }) => annotations?.a?.endsWith('xxx')));
  const some = await pages(repository, '?artifactType=c/d');
  assert.deepEqual(
    some.flat().map(({ digest }) => digest),
    digests.filter((_, position) => position % 2 === 1).toSorted(),
  );
});

test('a list of referrers leaves out very large annotations and types', async () => {
  const repository = new Repository(server.sluice, 'team/large');
  expect(await repository.pushBlob(empty), 201);
  const digests: string[] = [];
  for (const [annotations, type] of [
    [{ a: 'x'.repeat(3_900_000) }, 'a/b'],
    [{ a: 'b' }, `a/${'b'.repeat(100_000)}`],
  ] as const) {
    digests.push(await push(repository, annotations, type));
  }
  const [listed = [], ...more] = await pages(repository);
  assert.deepEqual(more, []);
  const ofDigest = (digest: string | undefined) => listed.find(one => one.digest === digest);
  assert.deepEqual(ofDigest(digests[0])?.annotations, undefined);
  assert.equal(ofDigest(digests[0])?.artifactType, 'a/b');
  assert.equal(ofDigest(digests[1])?.artifactType, undefined);
  assert.deepEqual(ofDigest(digests[1])?.annotations, { a: 'b' });
});
