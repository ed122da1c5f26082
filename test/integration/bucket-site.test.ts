/** A server with its content in an object store. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { ListObjectsV2Command, PutObjectCommand } from '@aws-sdk/client-s3';
import { digestOf } from '../../src/oci/digest.ts';
import { pushCorpus } from '../corpus/corpus.ts';
import { basic, expect, Repository } from '../hosted/push-client.ts';
import { assertBytes } from '../world/assert-bytes.ts';
import { eventually } from '../world/eventually.ts';
import { type ObjectStore, startObjectStore } from '../world/object-store.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';
import { sluiceCommand } from '../world/sluice-command.ts';
import { makeTempDir, type TempDir } from '../world/temp-dir.ts';
import { admin } from './hosted.ts';

interface Manifest {
  readonly config: { readonly digest: string };
  readonly layers: readonly { readonly digest: string; readonly size: number }[];
}

const image = 'cfg:full';

suite('a server with its content in an object store', () => {
  let store: ObjectStore;
  let bucket: string;
  let directory: TempDir;
  let sluice: Sluice;
  let registry: Registry;
  let hosted: { repository: string; tag: string; digest: string };

  const headers = { ...basic(admin.username, admin.password), accept: '*/*' };
  const environment = () => ({
    ...store.env,
    SLUICE_CONTENT: `s3://${bucket}/site`,
    SLUICE_S3_ENDPOINT: store.url,
    SLUICE_S3_REGION: 'us-east-1',
    SLUICE_S3_PATH_STYLE: 'true',
    SLUICE_ACCOUNTS: `${admin.username}:${admin.password}`,
    SLUICE_BUILDKIT: 'off',
  });
  const start = (env: Readonly<Record<string, string>> = {}) =>
    startSluice({
      data: directory.join('data'),
      config: { registries: { [registry.host]: { plainHttp: true } } },
      env: { ...environment(), ...env },
    });
  /** Starts the server again without what it had on its disk of the content. */
  const startElsewhere = async () => {
    await sluice.stop();
    await rm(directory.join('data/bucket'), { recursive: true });
    sluice = await start();
  };
  const command = (...args: string[]) =>
    sluiceCommand([...args, '--data', directory.join('data')], environment());
  /** Pulls all of an image and checks its digests. */
  const pull = async (path: string, tag: string): Promise<Manifest> => {
    const response = await sluice.fetch(`/v2/${path}/manifests/${tag}`, { headers });
    const bytes = Buffer.from(await response.arrayBuffer());
    assert.equal(response.status, 200, bytes.toString());
    assert.equal(response.headers.get('docker-content-digest'), digestOf(bytes));
    const manifest = JSON.parse(bytes.toString()) as Manifest;
    for (const { digest } of [manifest.config, ...manifest.layers]) {
      const blob = await sluice.fetch(`/v2/${path}/blobs/${digest}`, { headers });
      assert.equal(digestOf(Buffer.from(await blob.arrayBuffer())), digest);
    }
    return manifest;
  };
  const layer = gzipSync(Buffer.alloc(10_240));

  before(async () => {
    registry = await startRegistry();
    await pushCorpus(registry, [image]);
    store = await startObjectStore();
    bucket = await store.createBucket();
    directory = await makeTempDir('bucket-site');
    sluice = await start();
    const { username, password } = admin;
    const pushed = (await pushCorpus({ url: sluice.url, username, password }, [image])).get(image);
    assert.ok(pushed);
    hosted = pushed;
  });
  after(async () => {
    await sluice?.stop();
    await registry?.stop();
    await store?.[Symbol.asyncDispose]();
    await directory?.remove();
  });

  test('a client repeats the end of an upload that the store did not take', async () => {
    const { authorization } = headers;
    const repository = new Repository(sluice, 'team/repeated', { authorization });
    const endOf = (location: string, bytes: Buffer) => `${location}?digest=${digestOf(bytes)}`;
    const [first, whole, chunked] = [1, 2, 3].map(fill => Buffer.alloc(300_000, fill));
    assert.ok(first && whole && chunked);
    const ends = [
      { end: endOf(await repository.begin(), whole), body: whole },
      { end: endOf(await repository.begin(), chunked), body: undefined },
      { end: endOf(await repository.begin(), first), body: first },
    ] as const;
    expect(await repository.send('PATCH', ends[1].end.replace(/[?].*/, ''), chunked), 202);
    await store.kill();
    for (const { end, body } of ends) expect(await repository.send('PUT', end, body), 503);
    await store.start();
    for (const { end, body } of ends.slice(0, 2)) {
      expect(await repository.send('PUT', end, body), 201);
    }
    for (const bytes of [whole, chunked]) {
      assertBytes((await repository.get(`blobs/${digestOf(bytes)}`)).body, bytes);
    }
    // Other bytes than before are not taken for those that are here.
    const { end } = ends[2];
    expect(await repository.send('PUT', end, Buffer.alloc(300_001, 1)), 400);
    expect(await repository.send('PUT', end.replace(/=.*/, `=${digestOf(whole)}`), whole), 400);
    expect(await repository.send('PUT', end, first), 404);
  });

  test('serves what was pushed and requested, also when its disk has lost all copies', async () => {
    const served = await sluice.request({
      containerImage: `${registry.host}/corpus/cfg:full`,
      containerConfig: {
        layers: [
          {
            location: `data:${layer.toString('base64')}`,
            gzipDigest: digestOf(layer),
            tarDigest: digestOf(Buffer.alloc(10_240)),
            gzipSize: layer.length,
            skipHashing: false,
          },
        ],
      },
    });
    const [, path = '', tag = ''] = /^[^/]+\/(.+):([^:]+)$/.exec(served.targetImage) ?? [];
    for (let round = 0; round < 2; round += 1) {
      await pull(hosted.repository, hosted.tag);
      const { layers } = await pull(path, tag);
      assert.equal(layers.at(-1)?.digest, digestOf(layer));
      if (round === 0) await startElsewhere();
    }
    assert.ok(!existsSync(join(sluice.data, 'content')), 'nothing is kept in a directory');
  });

  test('is swept and verified by commands', async () => {
    const verified = await command('verify');
    assert.equal(verified.code, 0, verified.stdout + verified.stderr);
    const swept = await command('gc');
    assert.equal(swept.code, 0, swept.stdout + swept.stderr);
    await pull(hosted.repository, hosted.tag);
    const backup = await command('backup', directory.join('backup'));
    assert.notEqual(backup.code, 0);
    assert.match(backup.stderr, /content is in an object store/);
  });

  test('says 503 while the store is away, and goes on when it is back', async () => {
    await startElsewhere();
    const manifest = await pull(hosted.repository, hosted.tag);
    await startElsewhere();
    await store.kill();
    const blob = `/v2/${hosted.repository}/blobs/${manifest.layers[0]?.digest}`;
    const response = await sluice.fetch(blob, { headers });
    assert.equal(response.status, 503, await response.text());
    assert.ok(Number(response.headers.get('retry-after')) > 0);
    assert.equal((await sluice.fetch('/readyz')).status, 503);
    const { username, password } = admin;
    const push = () => pushCorpus({ url: sluice.url, username, password }, ['cfg:full-docker']);
    await assert.rejects(push(), /503/);
    assert.equal(sluice.process.exitCode, null);
    await store.start();
    await eventually('the server is ready again', async () => {
      return (await sluice.fetch('/readyz')).status === 200;
    });
    await pull(hosted.repository, hosted.tag);
    await push();
  });

  test('never serves wrong bytes of the store completely, and sets them aside', async () => {
    const { layers } = await pull(hosted.repository, hosted.tag);
    const { digest = '', size = 0 } = layers[0] ?? {};
    const Key = `site/blobs/${digest.replace(':', '/')}`;
    const wrong = Buffer.alloc(size, 'wrong');
    await store.client.send(new PutObjectCommand({ Bucket: bucket, Key, Body: wrong }));
    await startElsewhere();
    const path = `/v2/${hosted.repository}/blobs/${digest}`;
    const whole = await sluice
      .fetch(path, { headers })
      .then(
        async response => response.status === 200 && (await response.arrayBuffer()),
        () => false,
      )
      .catch(() => false);
    assert.equal(whole, false);
    const { Contents = [] } = await store.client.send(
      new ListObjectsV2Command({ Bucket: bucket, Prefix: 'site/damaged/' }),
    );
    assert.equal(Contents.length, 1);
    assert.ok(!(await sluice.fetch(path, { headers })).ok);
    await eventually('the damage is in the log', async () =>
      /content is damaged/.test(sluice.output()),
    );
  });

  test('shows no key in its log, and names what is wrong at the start', async () => {
    const secret = store.env.AWS_SECRET_ACCESS_KEY ?? '';
    assert.ok(!sluice.output().includes(secret));
    await sluice.stop();
    await assert.rejects(start({ SLUICE_CONTENT: 's3://missing-bucket' }), /SLUICE_CONTENT/);
    await assert.rejects(
      start({ SLUICE_CONTENT: `s3://${bucket}/empty` }),
      /is missing, or is not what the database refers to/,
    );
    assert.ok((await readdir(directory.path)).includes('data'));
  });
});
