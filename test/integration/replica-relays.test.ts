/** Replicas that do not lead relay blobs of other registries themselves, with the rights that the leader checks. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { get, type IncomingMessage } from 'node:http';
import { after, before, suite, test } from 'node:test';
import pg from 'pg';
import { digestOf } from '../../src/oci/digest.ts';
import { pushCorpus } from '../corpus/corpus.ts';
import { basic } from '../hosted/push-client.ts';
import { assertBytes } from '../world/assert-bytes.ts';
import { eventually } from '../world/eventually.ts';
import { type ObjectStore, startObjectStore } from '../world/object-store.ts';
import { type Postgres, startPostgres } from '../world/postgres.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { type Replicas, startReplicas } from '../world/replicas.ts';
import type { ContainerResponse, Sluice } from '../world/sluice.ts';
import { accounts, admin } from './hosted.ts';

const perAddress = 10;

suite('blobs of other registries', () => {
  let postgres: Postgres;
  let store: ObjectStore;
  let registry: Registry;
  let replicas: Replicas;
  let response: ContainerResponse;
  let reference: string;
  let digest: string;
  let size: number;

  before(async () => {
    [postgres, store, registry] = await Promise.all([
      startPostgres(),
      startObjectStore(),
      startRegistry({ auth: 'basic' }),
    ]);
    const { username, password } = registry;
    const pushed = (await pushCorpus(registry, ['big:64m'])).get('big:64m') ?? assert.fail();
    reference = pushed.reference;
    ({ digest, size } = pushed.image.blobs[1] ?? assert.fail());
    replicas = await startReplicas({
      ...{ postgres, store, count: 2 },
      config: {
        accounts,
        rightLife: '1s',
        limits: { connections: { perAddress } },
        registries: {
          [registry.host]: { plainHttp: true, username, password, anonymous: true },
        },
      },
    });
    response = await request('shared');
  });
  after(async () => {
    await replicas?.[Symbol.asyncDispose]();
    await registry?.stop();
    await store?.[Symbol.asyncDispose]();
    await postgres?.[Symbol.asyncDispose]();
  });

  const request = (name: string) =>
    server(0).request({
      containerImage: reference,
      containerConfig: { env: [`NAME=${name}`] },
    });
  const server = (position: number): Sluice => {
    const found = replicas.servers[position];
    assert.ok(found);
    return found;
  };
  const blob = (at: Sluice, { targetImage }: ContainerResponse) =>
    at.at(targetImage, `blobs/${digest}`);
  const relayedBytes = async (at: Sluice): Promise<number> => {
    const metrics = await (await at.fetch('/metrics')).text();
    return Number(/^sluice_blob_bytes_total\{way="relayed"\} (\d+)$/m.exec(metrics)?.[1] ?? 0);
  };
  const blobReads = () =>
    registry.requests.filter(({ method, path }) => method === 'GET' && path.endsWith(digest));

  /** Begins to read a blob, and stops after its first bytes. */
  const beginSlowly = async (at: Sluice, image: ContainerResponse, client = '192.0.2.1') => {
    const options = { agent: false, headers: { 'x-forwarded-for': client } };
    const [transfer] = (await once(get(blob(at, image), options), 'response')) as [IncomingMessage];
    assert.equal(transfer.statusCode, 200);
    const hash = createHash('sha256');
    const [head] = await once(transfer, 'data');
    transfer.pause();
    hash.update(head);
    return {
      end: () => transfer.destroy(),
      async digest() {
        for await (const chunk of transfer) hash.update(chunk);
        return `sha256:${hash.digest('hex')}`;
      },
    };
  };

  test('their bytes do not pass the leader', async () => {
    const leader = await replicas.leader();
    const [leads, follows] = [server(leader), server(1 - leader)];
    const [before, beforeHere] = [await relayedBytes(leads), await relayedBytes(follows)];
    const whole = await fetch(blob(follows, response));
    assert.equal(whole.headers.get('docker-content-digest'), digest);
    const bytes = Buffer.from(await whole.arrayBuffer());
    assert.equal(digestOf(bytes), digest);
    const part = await fetch(blob(follows, response), { headers: { range: 'bytes=1000-1999' } });
    assert.equal(part.status, 206);
    assert.equal(part.headers.get('content-range'), `bytes 1000-1999/${size}`);
    assertBytes(Buffer.from(await part.arrayBuffer()), bytes.subarray(1000, 2000));
    assert.equal(await relayedBytes(leads), before);
    assert.equal(await relayedBytes(follows), beforeHere + size + 1000);
    // What the leader has itself, and what it refuses, comes from the leader.
    const config = await fetch(follows.at(response.targetImage, 'manifests/64m'));
    const own = ((await config.json()) as { config: { digest: string } }).config.digest;
    const made = await fetch(follows.at(response.targetImage, `blobs/${own}`));
    assert.equal(digestOf(Buffer.from(await made.arrayBuffer())), own);
    const absent = await fetch(follows.at(response.targetImage, `blobs/${digestOf('absent')}`));
    assert.equal(absent.status, 404);
    const known = await fetch(blob(follows, response), {
      headers: { 'if-none-match': `"${digest}"` },
    });
    assert.equal(known.status, 304);
  });

  test('nobody else learns with which login', async () => {
    const leader = server(await replicas.leader());
    const invented = { 'sluice-relay': 'yes', 'sluice-replica': 'x', 'sluice-peer': '10.0.0.1' };
    for (const at of replicas.servers) {
      const found = await fetch(blob(at, response), { headers: invented });
      assert.equal(digestOf(Buffer.from(await found.arrayBuffer())), digest);
      assert.equal(found.headers.get('sluice-relay'), null);
    }
    for (const at of replicas.servers) assert.ok(!at.output().includes(registry.password));
    assert.ok(leader.output().includes('"status":200'));
  });

  test('many clients of one blob share its transfer', async () => {
    const follows = server(1 - (await replicas.leader()));
    const before = blobReads().length;
    const digests = await Promise.all(
      Array.from({ length: 8 }, async () => {
        const found = await fetch(blob(follows, response));
        return digestOf(Buffer.from(await found.arrayBuffer()));
      }),
    );
    assert.deepEqual(new Set(digests), new Set([digest]));
    assert.ok(blobReads().length - before <= 2, `${blobReads().length - before} transfers`);
  });

  test('a right that ends, ends their transfers', async () => {
    const follows = server(1 - (await replicas.leader()));
    const ended = await request('ended');
    const transfer = await beginSlowly(follows, ended);
    const reply = await follows.fetch(`/container-token/${ended.containerToken}`, {
      method: 'DELETE',
      headers: basic(admin.username, admin.password),
    });
    assert.equal(reply.status, 200);
    await eventually('the log has the end', () =>
      follows
        .requests()
        .then(all => all.some(({ aborted, path }) => aborted && path.endsWith(digest))),
    );
    await assert.rejects(transfer.digest());
    assert.equal((await fetch(blob(follows, ended))).status, 404);
  });

  test('a transfer outlives its container token, as at the leader', async () => {
    const leader = await replicas.leader();
    const [leads, follows] = [server(leader), server(1 - leader)];
    const expiring = await request('expiring');
    const client = new pg.Client(replicas.database);
    await client.connect();
    const { rowCount } = await client.query(
      'UPDATE requests SET expires_at = $1 WHERE token_hash = sha256($2)',
      [Date.now() + 6000, expiring.containerToken],
    );
    await client.end();
    assert.equal(rowCount, 1);
    const transfer = await beginSlowly(follows, expiring);
    await eventually('the token has expired', async () => {
      const manifest = leads.at(expiring.targetImage, 'manifests/64m');
      return (await fetch(manifest)).status === 404;
    });
    const looks = () => registry.requests.filter(({ path }) => path.includes('/manifests/')).length;
    const before = looks();
    await eventually('the right was checked since then', () => looks() > before + 1);
    assert.equal(await transfer.digest(), digest);
    assert.equal((await fetch(blob(follows, expiring))).status, 404);
  });

  test('the transfers of one client are limited where it gets them', async () => {
    const follows = server(1 - (await replicas.leader()));
    const client = '192.0.2.9';
    const transfers = await Promise.all(
      Array.from({ length: perAddress }, () => beginSlowly(follows, response, client)),
    );
    const ask = (from: string) =>
      fetch(`${follows.url}/service-info`, { headers: { 'x-forwarded-for': from } });
    assert.equal((await ask(client)).status, 429);
    assert.equal((await ask('192.0.2.10')).status, 200);
    for (const transfer of transfers) transfer.end();
    await eventually('there is room again', async () => (await ask(client)).status === 200);
  });

  test('a transfer outlives the leader, and is right', async () => {
    const leader = await replicas.leader();
    const follows = server(1 - leader);
    const transfer = await beginSlowly(follows, response);
    await server(leader).kill();
    await eventually('the other one leads', async () => (await replicas.leader()) === 1 - leader);
    assert.equal(await transfer.digest(), digest);
    await replicas.start(leader);
  });
});
