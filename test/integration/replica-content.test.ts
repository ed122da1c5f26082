/** Replicas that do not lead send blobs of the object store themselves, with the rights that the leader checks. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { get, type IncomingMessage } from 'node:http';
import { after, before, suite, test } from 'node:test';
import { DeleteObjectCommand, PutObjectCommand } from '@aws-sdk/client-s3';
import { type Digest, digestOf } from '../../src/oci/digest.ts';
import { keyOf } from '../../src/storage/objects/object-reads.ts';
import { basic, Repository } from '../hosted/push-client.ts';
import { assertBytes } from '../world/assert-bytes.ts';
import { eventually } from '../world/eventually.ts';
import { type ObjectStore, startObjectStore } from '../world/object-store.ts';
import { type Postgres, startPostgres } from '../world/postgres.ts';
import { type Replicas, startReplicas } from '../world/replicas.ts';
import type { Sluice } from '../world/sluice.ts';
import { accounts, admin } from './hosted.ts';

suite('blobs of the object store', () => {
  const login = basic(admin.username, admin.password);
  const [layer, spoilt, slow] = [randomBytes(3_000_000), randomBytes(2_000_000), randomBytes(64e6)];
  const gone = randomBytes(1_000_000);
  const small = Buffer.from('{"architecture":"amd64","os":"linux"}');
  let postgres: Postgres;
  let store: ObjectStore;
  let replicas: Replicas;
  let leads: Sluice;
  let follows: Sluice;

  before(async () => {
    [postgres, store] = await Promise.all([startPostgres(), startObjectStore()]);
    replicas = await startReplicas({
      ...{ postgres, store, count: 2 },
      config: { accounts, rightLife: '1s' },
    });
    const leader = await replicas.leader();
    [leads, follows] = [serverAt(leader), serverAt(1 - leader)];
    const repository = new Repository(follows, 'team/app', login);
    for (const bytes of [layer, spoilt, slow, gone, small]) {
      assert.equal((await repository.pushBlob(bytes)).status, 201);
    }
    assert.equal((await repository.pushManifest('one', small, [layer, slow])).status, 201);
  });
  after(async () => {
    await replicas?.[Symbol.asyncDispose]();
    await store?.[Symbol.asyncDispose]();
    await postgres?.[Symbol.asyncDispose]();
  });

  const serverAt = (position: number): Sluice => replicas.servers[position] ?? assert.fail();
  const blob = (at: Sluice, digest: Digest, headers = {}, repository = 'team/app') =>
    at.fetch(`/v2/${repository}/blobs/${digest}`, { headers: { ...login, ...headers } });
  const bytesOf = async (response: Response) => Buffer.from(await response.arrayBuffer());
  const storedBytes = async (at: Sluice): Promise<number> => {
    const metrics = await (await at.fetch('/metrics')).text();
    return Number(/^sluice_blob_bytes_total\{way="stored"\} (\d+)$/m.exec(metrics)?.[1] ?? 0);
  };

  test('their bytes do not pass the leader', async () => {
    const digest = digestOf(layer);
    const [before, beforeHere] = [await storedBytes(leads), await storedBytes(follows)];
    const whole = await blob(follows, digest);
    assert.equal(whole.headers.get('docker-content-digest'), digest);
    assert.equal(whole.headers.get('sluice-order'), null);
    assertBytes(await bytesOf(whole), layer);
    const part = await blob(follows, digest, { range: 'bytes=1000-1999' });
    assert.equal(part.status, 206);
    assert.equal(part.headers.get('content-range'), `bytes 1000-1999/${layer.length}`);
    assertBytes(await bytesOf(part), layer.subarray(1000, 2000));
    assert.equal(await storedBytes(leads), before);
    assert.equal(await storedBytes(follows), beforeHere + layer.length + 1000);
  });

  test('the leader answers all else: small blobs, unknown ones, and callers without a right', async () => {
    const before = await storedBytes(follows);
    assertBytes(await bytesOf(await blob(follows, digestOf(small))), small);
    assert.equal((await blob(follows, digestOf('absent'))).status, 404);
    const anonymous = await follows.fetch(`/v2/team/app/blobs/${digestOf(layer)}`, {
      headers: { 'sluice-order': 'yes' },
    });
    assert.equal(anonymous.status, 401);
    const known = await blob(follows, digestOf(layer), {
      'if-none-match': `"${digestOf(layer)}"`,
    });
    assert.equal(known.status, 304);
    assert.equal(await storedBytes(follows), before);
  });

  test('nobody but a replica gets an order', async () => {
    const invented = { 'sluice-order': 'yes', 'sluice-replica': 'x', 'sluice-peer': '10.0.0.1' };
    const response = await blob(leads, digestOf(layer), invented);
    assert.equal(response.headers.get('sluice-order'), null);
    assertBytes(await bytesOf(response), layer);
  });

  test('a served name ends while its blob is sent', async () => {
    const { targetImage, containerToken } = await leads
      .fetch('/v1alpha2/container', {
        method: 'POST',
        headers: { ...login, 'content-type': 'application/json' },
        body: JSON.stringify({
          containerImage: `${new URL(replicas.balancer.url).host}/team/app:one`,
        }),
      })
      .then(
        response => response.json() as Promise<{ targetImage: string; containerToken: string }>,
      );
    const url = follows.at(targetImage, `blobs/${digestOf(slow)}`);
    const [transfer] = (await once(get(url, { agent: false }), 'response')) as [IncomingMessage];
    assert.equal(transfer.statusCode, 200);
    await once(transfer, 'data');
    transfer.pause();
    const ended = once(transfer, 'close').catch(() => {});
    transfer.on('error', () => {});
    const reply = await follows.fetch(`/container-token/${containerToken}`, {
      method: 'DELETE',
      headers: login,
    });
    assert.equal(reply.status, 200);
    await eventually('the log has the end', () =>
      follows
        .requests()
        .then(all => all.some(({ aborted, path }) => aborted && path.endsWith(digestOf(slow)))),
    );
    transfer.destroy();
    await ended;
  });

  test('the leader sends what cannot be read, in the same answer', async () => {
    const digest = digestOf(gone);
    const Key = `site/${keyOf(digest)}`;
    await store.client.send(new DeleteObjectCommand({ Bucket: 'bucket-1', Key }));
    // The leader has a copy on its own disk.
    const response = await blob(follows, digest);
    assert.equal(response.status, 200);
    assertBytes(await bytesOf(response), gone);
  });

  test('damaged content never looks complete, and the leader serves the next attempt', async () => {
    const digest = digestOf(spoilt);
    const damaged = Buffer.from(spoilt);
    damaged[1_500_000] = ~(damaged[1_500_000] ?? 0) & 0xff;
    const Key = `site/${keyOf(digest)}`;
    await store.client.send(new PutObjectCommand({ Bucket: 'bucket-1', Key, Body: damaged }));
    await assert.rejects(blob(follows, digest).then(bytesOf));
    // The leader has a copy on its own disk.
    const before = await storedBytes(leads);
    assertBytes(await bytesOf(await blob(follows, digest)), spoilt);
    assert.equal(await storedBytes(leads), before + spoilt.length);
  });
});
