import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import { test } from 'node:test';
import { digestOf } from '../../src/oci/digest.ts';
import { administered, expect, Repository } from '../hosted/push-client.ts';
import { startSluice } from '../world/sluice.ts';
import { assertRegistryFault } from './http-client.ts';
import { pattern } from './scripted-upstream.ts';

const mebibyte = 1024 * 1024;

test('a full disk is told, loses nothing that was acknowledged, and is left behind', async () => {
  await using sluice = await startSluice({ config: administered, diskBytes: 24 * mebibyte });
  const repository = new Repository(sluice, 'team/app');
  const layer = pattern(8 * mebibyte, 'before');
  const digest = await repository.pushImage('before', [layer]);
  const full = { status: 507, code: 'UNAVAILABLE', message: /disk of the service is full/ };

  const large = pattern(40 * mebibyte, 'too large');
  assertRegistryFault(await repository.pushBlob(large), full);
  const location = await repository.begin();
  assertRegistryFault(await repository.send('PATCH', location, large), full);
  assert.equal((await repository.get(location)).status, 404, 'the upload has ended');
  const data = `/proc/${sluice.process.pid}/root${sluice.data}`;
  assert.deepEqual(await readdir(`${data}/content/tmp`), [], 'and has made room');

  // Until nothing at all fits any more, not even a row of the database.
  const statuses = new Set<number>();
  for (let size = 4 * mebibyte; size >= 1; size = Math.floor(size / 2)) {
    for (let at = 0; at < 8; at += 1) {
      const reply = await repository.pushBlob(pattern(size, `fill ${size} ${at}`));
      statuses.add(reply.status);
      if (reply.status !== 201) break;
    }
  }
  assert.deepEqual([...statuses].sort(), [201, 507]);
  const image = expect(await repository.get('manifests/before'), 200);
  assert.equal(digestOf(image.body), digest);
  const kept = await repository.get(`blobs/${digestOf(layer)}`);
  assert.equal(digestOf(expect(kept, 200).body), digestOf(layer));
  assert.equal((await sluice.fetch('/readyz')).status, 200);
});
