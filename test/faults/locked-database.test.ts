import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import Database from 'better-sqlite3';
import { pushCorpus } from '../corpus/corpus.ts';
import {
  admin,
  administered,
  expect,
  manifestOf,
  manifestType,
  Repository,
} from '../hosted/push-client.ts';
import { eventually } from '../world/eventually.ts';
import { startRegistry } from '../world/registry.ts';
import { startSluice } from '../world/sluice.ts';
import { call } from './http-client.ts';
import { pattern } from './scripted-upstream.ts';

// Far more than it takes on a busy machine, far less than the patience of a write.
const promptMs = 2000;
const config = Buffer.from('{}');
const otherConfig = Buffer.from('{"os":"linux"}');

/** Holds the write lock of the database from another process, as a long command may. */
function lock(data: string): Disposable {
  const database = new Database(join(data, 'sluice.db'));
  database.exec('BEGIN IMMEDIATE');
  return { [Symbol.dispose]: () => void database.close() };
}

test('while another process holds the write lock, reads continue and writes wait, then answer 503', async () => {
  await using registry = await startRegistry();
  await pushCorpus(registry, ['cfg:full']);
  const settings = { plainHttp: true, blobs: 'cache' };
  await using sluice = await startSluice({
    config: { ...administered, registries: { [registry.host]: settings } },
  });
  const image = `${registry.host}/corpus/cfg:full`;
  const ask = (env: string) =>
    sluice.request({ containerImage: image, containerConfig: { env: [env] } });
  const { targetImage } = await ask('A=1');
  const manifest = sluice.at(targetImage, 'manifests/full');
  const { layers } = JSON.parse(await (await fetch(manifest)).text());
  const repository = new Repository(sluice, 'team/app');
  await repository.pushImage('before', [pattern(1000, 'layer')]);
  const reads = [
    ...[`${sluice.url}/healthz`, `${sluice.url}/readyz?for=pulls`, manifest],
    ...[sluice.at(targetImage, `blobs/${layers[0].digest}`)],
    ...[`${repository.url}/manifests/before`, `${repository.url}/tags/list`],
  ];
  await Promise.all(reads.map(url => fetch(url, { headers: admin })));

  /** By address, the least that a read took (ms): the machine may stand still during one of them. */
  const quickest = new Map<string, number>();
  /** Reads everything again and again until the work is done. */
  const readMeanwhile = async <T>(work: Promise<T>): Promise<T> => {
    let isDone = false;
    const done = work.finally(() => {
      isDone = true;
    });
    done.catch(() => {});
    while (!isDone) {
      for (const url of reads) {
        const began = performance.now();
        const response = await fetch(url, { headers: admin });
        await response.arrayBuffer();
        const ms = performance.now() - began;
        quickest.set(url, Math.min(ms, quickest.get(url) ?? ms));
        assert.equal(response.status, 200, url);
      }
    }
    return done;
  };
  const writes = () => ({
    request: sluice.fetch('/v1alpha2/container', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ containerImage: image }),
    }),
    user: sluice.fetch('/platform/users', {
      method: 'POST',
      headers: { ...admin, 'content-type': 'application/json' },
      body: JSON.stringify({ email: 'ada@example.org' }),
    }),
    tag: repository.send('DELETE', 'manifests/before'),
    blob: repository.pushBlob(config),
  });

  {
    using _lock = lock(sluice.data);
    const ready = sluice.fetch('/readyz');
    const { request, user, tag, blob } = writes();
    const responses = await readMeanwhile(Promise.all([request, user]));
    for (const response of responses) {
      assert.equal(response.status, 503);
      assert.equal(response.headers.get('retry-after'), '5');
      assert.match(await response.text(), /locked the database.*nothing was changed: try again/);
    }
    for (const reply of await Promise.all([tag, blob])) {
      assert.equal(reply.status, 503);
      assert.match(reply.body.toString(), /"UNAVAILABLE".*locked the database/);
    }
    assert.equal((await ready).status, 503);
  }
  assert.equal((await sluice.fetch('/readyz')).status, 200);
  for (const [url, ms] of quickest) assert.ok(ms < promptMs, `${url} took ${ms} ms`);
  expect(await repository.get('manifests/before'), 200);

  const held = lock(sluice.data);
  const { request, user, tag, blob } = writes();
  // When the reads have come through, the writes have tried.
  for (const url of reads) await (await fetch(url, { headers: admin })).arrayBuffer();
  held[Symbol.dispose]();
  assert.equal((await request).status, 200);
  assert.equal((await user).status, 200);
  expect(await tag, 202);
  expect(await blob, 201);
  assert.equal(sluice.process.exitCode, null);
});

test('a change of tags that waits is given up with its client, who may have sent it again', async () => {
  await using sluice = await startSluice({ config: administered });
  const repository = new Repository(sluice, 'team/app');
  for (const blob of [config, otherConfig]) expect(await repository.pushBlob(blob), 201);
  expect(await repository.pushManifest('before', config), 201);
  const client = new AbortController();
  {
    using _lock = lock(sluice.data);
    const { signal } = client;
    const left = [
      call(`${repository.url}/manifests/before`, { method: 'DELETE', headers: admin, signal }),
      // Its bytes are stored already: only the row of the tag is missing.
      call(`${repository.url}/manifests/late`, {
        ...{ method: 'PUT', body: manifestOf(config, []), signal },
        headers: { ...admin, 'content-type': manifestType },
      }),
    ];
    // When a read has come through, the changes have tried.
    for (let read = 0; read < 5; read += 1) expect(await repository.get('manifests/before'), 200);
    client.abort();
    for (const { status } of await Promise.allSettled(left)) assert.equal(status, 'rejected');
    await eventually('the server knows', async () => {
      const aborted = (await sluice.requests()).filter(({ aborted }) => aborted);
      return aborted.length === left.length;
    });
  }
  expect(await repository.pushManifest('after', otherConfig), 201);
  expect(await repository.get('manifests/before'), 200);
  expect(await repository.get('manifests/late'), 404);
});
