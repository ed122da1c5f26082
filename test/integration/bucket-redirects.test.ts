/** Clients read large blobs from the object store themselves. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { buffer } from 'node:stream/consumers';
import { after, before, suite, test } from 'node:test';
import { PutObjectCommand } from '@aws-sdk/client-s3';
import { pack } from 'tar-stream';
import { digestOf } from '../../src/oci/digest.ts';
import { basic, Repository } from '../hosted/push-client.ts';
import { clientsOf, pull, storeLogin } from '../world/clients.ts';
import { startDocker } from '../world/docker.ts';
import { type ObjectStore, startObjectStore } from '../world/object-store.ts';
import { openRoot } from '../world/root.ts';
import { shiftedClock } from '../world/shifted-clock.ts';
import { type ContainerResponse, type Sluice, startSluice } from '../world/sluice.ts';
import { makeTempDir, type TempDir } from '../world/temp-dir.ts';
import { outerSuites } from '../world/tools.ts';
import { accounts, admin, reader } from './hosted.ts';
import { assertSuccess } from './served.ts';

const headers = basic(reader.username, reader.password);

suite('a server that redirects to its object store', () => {
  let store: ObjectStore;
  let bucket: string;
  let directory: TempDir;
  let sluice: Sluice;
  let repository: Repository;
  let layer: Buffer;
  const small = Buffer.alloc(10_240);

  const start = (env: Readonly<Record<string, string>> = {}) =>
    startSluice({
      data: directory.join('data'),
      config: { accounts, buildkit: 'off' },
      env: {
        ...store.env,
        SLUICE_CONTENT: `s3://${bucket}/site`,
        SLUICE_S3_ENDPOINT: store.url,
        SLUICE_S3_REGION: 'us-east-1',
        SLUICE_S3_PATH_STYLE: 'true',
        SLUICE_S3_REDIRECT: 'true',
        ...env,
      },
    });
  const restart = async (env: Readonly<Record<string, string>> = {}) => {
    await sluice.stop();
    sluice = await start(env);
  };
  const ask = (digest: string, more: Readonly<Record<string, string>> = {}, method = 'GET') =>
    sluice.fetch(`/v2/team/app/blobs/${digest}`, {
      ...{ method, redirect: 'manual' },
      headers: { ...headers, ...more },
    });
  const bytesSent = async (): Promise<number> => {
    const metrics = await (await sluice.fetch('/metrics')).text();
    return Number(/^sluice_blob_bytes_total\{way="stored"\} (\d+)$/m.exec(metrics)?.[1] ?? 0);
  };
  const bytesOf = async (response: Response) => Buffer.from(await response.arrayBuffer());
  const locationOf = (response: Response): URL => {
    assert.equal(response.status, 307);
    return new URL(response.headers.get('location') ?? '');
  };

  before(async () => {
    store = await startObjectStore();
    bucket = await store.createBucket();
    directory = await makeTempDir('bucket-redirects');
    sluice = await start();
    const tar = pack();
    tar.entry({ name: 'large' }, randomBytes(2 * 1024 ** 2));
    tar.finalize();
    layer = await buffer(tar);
    repository = new Repository(sluice, 'team/app', basic(admin.username, admin.password));
    await repository.pushImage('1', [layer, small]);
  });
  after(async () => {
    await sluice?.stop();
    await store?.[Symbol.asyncDispose]();
    await directory?.remove();
  });

  test('a large blob is at a signed address of the store, for these bytes only', async () => {
    const location = locationOf(await ask(digestOf(layer)));
    assert.equal(location.origin, store.url);
    const response = await fetch(location);
    assert.ok((await bytesOf(response)).equals(layer));
    const part = await fetch(location, { headers: { range: 'bytes=100-199' } });
    assert.equal(part.status, 206);
    assert.ok((await bytesOf(part)).equals(layer.subarray(100, 200)));
    const other = new URL(location);
    other.pathname = other.pathname.replace(/[0-9a-f]{64}$/, digestOf(small).slice(7));
    assert.equal((await fetch(other)).status, 403, 'the signature is for one blob');
    assert.equal((await fetch(location, { method: 'DELETE' })).status, 403);
    const later = new URL(location);
    later.searchParams.set('X-Amz-Expires', '86400');
    assert.equal((await fetch(later)).status, 403, 'the signature is for 20 minutes');
    assert.equal(location.searchParams.get('X-Amz-Expires'), '1200');
  });

  test('sizes, small blobs and callers without a right get no address', async () => {
    const head = await ask(digestOf(layer), {}, 'HEAD');
    assert.equal(head.status, 200);
    assert.equal(Number(head.headers.get('content-length')), layer.length);
    const response = await ask(digestOf(small));
    assert.equal(response.status, 200);
    assert.ok((await bytesOf(response)).equals(small));
    for (const authorization of ['', basic('reader', 'wrong').authorization]) {
      const refused = await ask(digestOf(layer), { authorization });
      assert.equal(refused.status, 401);
      assert.equal(refused.headers.get('location'), null);
    }
    const elsewhere = await sluice.fetch(`/v2/team/other/blobs/${digestOf(layer)}`, {
      ...{ headers, redirect: 'manual' as const },
    });
    assert.equal(elsewhere.status, 404, 'another repository does not have the blob');
  });

  test('neither the log nor the metrics show a signature', async () => {
    locationOf(await ask(digestOf(layer)));
    assert.ok(!/X-Amz|Signature/i.test(sluice.output()));
    assert.ok(!sluice.output().includes(store.env.AWS_SECRET_ACCESS_KEY ?? ''));
  });

  for (const name of outerSuites) {
    for (const client of clientsOf(name)) {
      test(`${client} of ${name} follows`, async () => {
        await using root = await openRoot(name);
        await storeLogin(root, sluice.host, reader);
        assertSuccess(await pull(root, client, `${sluice.host}/team/app:1`), client);
      });
    }
  }

  for (const images of ['overlay2', 'containerd'] as const) {
    test(`a Docker engine with ${images} follows`, async () => {
      await using docker = await startDocker({ suite: 'trixie', store: images });
      assertSuccess(await docker.login(sluice.host, reader));
      const before = await bytesSent();
      assertSuccess(await docker.pull(`${sluice.host}/team/app:1`));
      assert.ok((await bytesSent()) - before < layer.length, 'the layer comes from the store');
      const format = ['image', 'inspect', '--format', '{{json .RootFS.Layers}}'];
      const inspected = await docker.docker([...format, `${sluice.host}/team/app:1`]);
      const diffIds = [layer, small].map(bytes => digestOf(bytes));
      assert.deepEqual(JSON.parse(assertSuccess(inspected)), diffIds);
    });
  }

  test('a container on a hosted image is redirected as well', async () => {
    const asked = await sluice.fetch('/v1alpha2/container', {
      method: 'POST',
      headers: { ...headers, 'content-type': 'application/json' },
      body: JSON.stringify({
        containerImage: `${sluice.host}/team/app:1`,
        containerConfig: { env: ['ADDED=1'] },
      }),
    });
    const served = (await asked.json()) as ContainerResponse;
    assert.equal(asked.status, 200, JSON.stringify(served));
    const response = await fetch(sluice.at(served.targetImage, `blobs/${digestOf(layer)}`), {
      redirect: 'manual',
    });
    assert.ok((await bytesOf(await fetch(locationOf(response)))).equals(layer));
  });

  test('after a restart a blob is checked once before it is redirected', async () => {
    await restart();
    const first = await ask(digestOf(layer));
    assert.equal(first.status, 200);
    assert.ok((await bytesOf(first)).equals(layer));
    locationOf(await ask(digestOf(layer)));
  });

  test('a blob that the store has damaged is never redirected', async () => {
    await restart();
    const bytes = randomBytes(2 * 1024 ** 2);
    const digest = digestOf(bytes);
    const there = new Repository(sluice, 'team/app', basic(admin.username, admin.password));
    await there.pushImage('damaged', [bytes]);
    await restart();
    const Key = `site/blobs/${digest.replace(':', '/')}`;
    const Body = Buffer.alloc(bytes.length, 'wrong');
    await store.client.send(new PutObjectCommand({ Bucket: bucket, Key, Body }));
    for (let round = 0; round < 2; round += 1) {
      const response = await ask(digest).catch(() => undefined);
      assert.notEqual(response?.status, 307);
      await assert.rejects(async () => {
        if (!response?.ok) throw new Error('refused');
        await response.arrayBuffer();
      });
    }
  });

  test('the address names the store as clients reach it', async () => {
    const { port } = new URL(store.url);
    await restart({ SLUICE_S3_PUBLIC_ENDPOINT: `http://localhost:${port}` });
    await bytesOf(await ask(digestOf(layer)));
    const location = locationOf(await ask(digestOf(layer)));
    assert.equal(location.host, `localhost:${port}`);
    assert.ok((await bytesOf(await fetch(location))).equals(layer));
  });

  test('a server with a wrong clock signs for the clock of the store', async () => {
    const clock = shiftedClock(directory);
    for (const hours of [3, -3]) {
      clock.shift(hours);
      await restart(clock.env);
      await bytesOf(await ask(digestOf(layer)));
      const response = await fetch(locationOf(await ask(digestOf(layer))));
      assert.equal(
        response.status,
        200,
        `${hours} hours: ${await response.clone().text()}`.slice(0, 500),
      );
      assert.ok((await bytesOf(response)).equals(layer));
    }
  });

  test('is off by default', async () => {
    await restart({ SLUICE_S3_REDIRECT: 'false' });
    const response = await ask(digestOf(layer));
    assert.equal(response.status, 200);
    assert.ok((await bytesOf(response)).equals(layer));
  });
});
