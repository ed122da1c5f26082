/** Lists of a served name: its tags, and the referrers of its image. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { digestOf } from '../../src/oci/digest.ts';
import { type FaultWorld, startFaultWorld } from '../faults/fault-world.ts';
import { assertRegistryFault, call } from '../faults/http-client.ts';
import type { ScriptedImage } from '../faults/scripted-upstream.ts';
import { assertBytes } from '../world/assert-bytes.ts';

let world: FaultWorld;
let image: ScriptedImage;
let target: string;

const at = (route: string) => world.sluice.at(target, route);
const pathOf = (route: string) => new URL(at(route)).pathname;

before(async () => {
  world = await startFaultWorld();
  image = world.upstreams.relay.image('team/app');
  const containerConfig = { env: ['A=1'] };
  const response = await world.sluice.request({ containerImage: image.name, containerConfig });
  target = response.targetImage;
});
after(() => world?.[Symbol.asyncDispose]());

test('tags/list has the tags that the served name answers', async () => {
  const name = pathOf('tags/list').slice('/v2/'.length, -'/tags/list'.length);
  const tags = async (route: string) => {
    const reply = await call(at(route));
    assert.equal(reply.status, 200);
    assert.equal(reply.headers['content-type'], 'application/json');
    const body = JSON.parse(reply.body.toString());
    assert.equal(body.name, name);
    const found = body.tags as string[];
    for (const tag of found) assert.equal((await call(at(`manifests/${tag}`))).status, 200);
    return found;
  };
  assert.deepEqual(await tags('tags/list'), ['latest']);
  assert.deepEqual(await tags('tags/list?n=2&last=a%20b'), ['latest']);
  assert.deepEqual(await tags('tags/list?last=latest'), []);
  assert.deepEqual(await tags('tags/list?n=0'), []);
  const get = await call(at('tags/list'));
  const head = await call(at('tags/list'), { method: 'HEAD' });
  assert.equal(head.headers['content-length'], get.headers['content-length']);
});

test('referrers are those of the registry, and their fallback tags are passed through', async () => {
  const { relay } = world.upstreams;
  const hex = image.digest.slice('sha256:'.length);
  const index = Buffer.from('{"schemaVersion":2,"manifests":[]}');
  const type = 'application/vnd.oci.image.index.v1+json';
  const listed = async (query = '') => {
    const reply = await call(at(`referrers/${image.digest}${query}`));
    assert.deepEqual([reply.status, reply.headers['content-type']], [200, type]);
    const { manifests } = JSON.parse(reply.body.toString()) as { manifests: object[] };
    return { manifests, filter: reply.headers['oci-filters-applied'] };
  };
  // A registry without the referrers API: first without the fallback tag, then with it.
  assert.deepEqual(await listed(), { manifests: [], filter: undefined });
  const entry = (artifactType: string) => ({
    ...{ mediaType: 'application/vnd.oci.image.manifest.v1+json', digest: image.digest, size: 7 },
    artifactType,
  });
  const manifests = [entry('a/b'), entry('c/d')];
  const tagged = Buffer.from(JSON.stringify({ schemaVersion: 2, mediaType: type, manifests }));
  relay.put(`team/app/manifests/sha256-${hex}`, type, tagged);
  assert.deepEqual(await listed(), { manifests, filter: undefined });
  assert.deepEqual(await listed('?artifactType=a%2Fb'), {
    manifests: [entry('a/b')],
    filter: 'artifactType',
  });
  relay.put(`team/app/referrers/${image.digest}`, type, index);
  relay.put(`team/app/manifests/sha256-${hex}`, type, index);
  relay.put(`team/app/manifests/sha256-${hex}.sig`, type, index);
  const api = await call(at(`referrers/${image.digest}?artifactType=a%2Fb`));
  assert.equal(api.status, 200);
  assert.equal(api.headers['content-type'], type);
  const own = { schemaVersion: 2, mediaType: type, manifests: [] };
  assert.deepEqual(JSON.parse(api.body.toString()), own);
  assert.match(relay.requests.at(-1)?.path ?? '', /\?artifactType=a%2Fb$/);
  for (const tag of [`sha256-${hex}`, `sha256-${hex}.sig`]) {
    const reply = await call(at(`manifests/${tag}`));
    assertBytes(reply.body, index);
    assert.equal(reply.headers['docker-content-digest'], digestOf(index));
  }
  const missing = await call(at(`manifests/sha256-${hex}.att`));
  assertRegistryFault(missing, {
    status: 404,
    code: 'MANIFEST_UNKNOWN',
    message: /does not exist/,
  });
});
