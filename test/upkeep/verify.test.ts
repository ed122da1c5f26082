import assert from 'node:assert/strict';
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { type Digest, digestOf } from '../../src/oci/digest.ts';
import { verify as verifyContent } from '../../src/server/upkeep/verify.ts';
import type { Proof } from '../../src/storage/content/checks.ts';
import { openContentDirectory } from '../../src/storage/content/content-directory.ts';
import type { ContentStore } from '../../src/storage/content/content-store.ts';
import { openBucket } from '../../src/storage/objects/bucket.ts';
import { openContentObjects } from '../../src/storage/objects/content-objects.ts';
import { createContentRowStore } from '../../src/storage/rows/content-rows.ts';
import { openDatabase } from '../../src/storage/rows/database.ts';
import type { HostedStore } from '../../src/storage/rows/hosted/hosted-store.ts';
import { assertRegistryFault } from '../faults/http-client.ts';
import { pattern } from '../faults/scripted-upstream.ts';
import { administered, expect, Repository } from '../hosted/push-client.ts';
import { assertBytes } from '../world/assert-bytes.ts';
import { startObjectStore } from '../world/object-store.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';
import { sluiceCommand } from '../world/sluice-command.ts';
import { makeTempDir } from '../world/temp-dir.ts';

function fileOf(sluice: Sluice, digest: string): string {
  const [algorithm = '', hex = ''] = digest.split(':');
  return join(sluice.data, 'content/blobs', algorithm, hex.slice(0, 2), hex);
}

const empty = async () => [];
const hosted = { blobsAfter: empty, manifestsAfter: empty } as unknown as HostedStore;

async function verify(sluice: Sluice, ...args: readonly string[]) {
  const { code, stdout } = await sluiceCommand([
    'verify',
    '--data',
    sluice.data,
    '--json',
    ...args,
  ]);
  return { code, ...JSON.parse(stdout) };
}

test('damage is found, can be removed, and a push repairs it', async () => {
  await using sluice = await startSluice({ config: administered });
  const repository = new Repository(sluice, 'team/app');
  const layers = ['rotten', 'lost', 'short'].map(name => pattern(100_000, name));
  const manifest = await repository.pushImage('1', layers);
  const [rotten = '', lost = '', short = ''] = layers.map(layer => digestOf(layer));
  assert.deepEqual(await verify(sluice), {
    code: 0,
    checked: 5,
    checkedBytes: (await verify(sluice)).checkedBytes,
    damaged: [],
    missing: [],
  });

  const bytes = await readFile(fileOf(sluice, rotten));
  bytes[50_000] = (bytes[50_000] ?? 0) ^ 1;
  await writeFile(fileOf(sluice, rotten), bytes);
  await rm(fileOf(sluice, lost));
  await writeFile(fileOf(sluice, short), bytes.subarray(0, 10));
  const found = await verify(sluice);
  assert.equal(found.code, 1);
  assert.deepEqual(found.damaged.toSorted(), [rotten, short].toSorted());
  const missing = found.missing.map((entry: { digest: string }) => entry.digest);
  assert.deepEqual(missing.toSorted(), [lost, short].toSorted());
  const [{ repository: where }] = found.missing;
  assert.equal(where, 'team/app');

  const unknown = { status: 404, code: 'BLOB_UNKNOWN', message: /has no blob/ };
  assertRegistryFault(await repository.get(`blobs/${lost}`), unknown);
  assert.equal((await verify(sluice, '--remove-damaged')).code, 1);
  const gone = await verify(sluice);
  assert.deepEqual([gone.damaged, gone.missing.length], [[], 3]);
  for (const layer of layers) {
    expect(await repository.send('HEAD', `blobs/${digestOf(layer)}`), 404);
    expect(await repository.pushBlob(layer), 201);
  }
  assert.equal((await verify(sluice)).code, 0);
  expect(await repository.get(`manifests/${manifest}`), 200);
});

test('what was removed before the command failed is printed and in the audit log', async () => {
  await using sluice = await startSluice({ config: administered });
  const repository = new Repository(sluice, 'team/app');
  const layer = pattern(1000, 'rotten');
  await repository.pushImage('1', [layer]);
  await writeFile(fileOf(sluice, digestOf(layer)), 'rotten');
  const place = ['--data', sluice.data];
  // The command reads this folder last, and cannot read what is in it.
  await mkdir(join(sluice.data, 'content/blobs/sha512'), { recursive: true });
  await writeFile(join(sluice.data, 'content/blobs/sha512/00'), '');
  const failed = await sluiceCommand(['verify', ...place, '--remove-damaged']);
  assert.equal(failed.code, 1);
  assert.match(failed.stderr, /ENOTDIR/);
  assert.match(failed.stdout, new RegExp(`^damaged: ${digestOf(layer)}$`, 'm'));
  const { stdout } = await sluiceCommand(['audit', ...place]);
  assert.match(stdout, /content\.remove-damaged\W+1 contents/);
});

test('a directory without data is reported', async () => {
  for (const command of ['verify', 'gc']) {
    const { code, stderr } = await sluiceCommand([command, '--data', '/nonexistent']);
    assert.equal(code, 1);
    assert.match(stderr, /\/nonexistent is not the data directory of a server/);
  }
});

test('content is not damaged because the process has no descriptor left', async () => {
  const digest = digestOf('content');
  const full = async () => {
    throw Object.assign(new Error('too many open files'), { code: 'EMFILE' });
  };
  let discarded = 0;
  const content = {
    async *list() {
      yield { digest, size: 7 };
    },
    ...{ examine: full, discardDamaged: full },
    async discard() {
      discarded += 1;
    },
  } as unknown as ContentStore;
  await assert.rejects(verifyContent(content, hosted), { code: 'EMFILE' });
  await assert.rejects(verifyContent(content, hosted, true), { code: 'EMFILE' });
  assert.equal(discarded, 0);
});

test('content is not damaged because the disk of another machine cannot be reached', async () => {
  const digest = digestOf('content');
  let discarded = 0;
  const contentOf = (failure: object) => {
    const fail = async () => {
      throw Object.assign(new Error('cannot read'), failure);
    };
    return {
      async *list() {
        yield { digest, size: 7 };
      },
      ...{ examine: fail, discardDamaged: fail, size: async () => undefined },
      async discard() {
        discarded += 1;
      },
    } as unknown as ContentStore;
  };
  for (const failure of [
    { code: 'ESTALE', errno: -116 },
    { code: 'ETIMEDOUT', errno: -110 },
  ]) {
    await assert.rejects(verifyContent(contentOf(failure), hosted), failure);
    await assert.rejects(verifyContent(contentOf(failure), hosted, true), failure);
  }
  assert.equal(discarded, 0);
  const unreadable = contentOf({ code: 'EIO', errno: -5 });
  assert.deepEqual((await verifyContent(unreadable, hosted)).damaged, [digest]);
  assert.deepEqual((await verifyContent(unreadable, hosted, true)).damaged, [digest]);
  assert.equal(discarded, 1);
});

test('content is not damaged because its object store restarts', async () => {
  await using store = await startObjectStore();
  await using directory = await makeTempDir('verify');
  Object.assign(process.env, store.env);
  const address = `s3://${await store.createBucket()}`;
  const bucket = await openBucket({ address, endpoint: store.url, pathStyle: true });
  const database = openDatabase(':memory:');
  const uses = createContentRowStore(database);
  const local = await openContentDirectory(directory.join('local'));
  const content = await openContentObjects(bucket, { local, uses });
  const bytes = Buffer.from('content');
  const digest = digestOf(bytes);
  await content.write(digest, bytes);

  const duringOutage =
    (read: (of: Digest) => Promise<Proof>) =>
    async (of: Digest): Promise<Proof> => {
      await store.kill();
      return read(of).finally(store.start);
    };
  const restarted: ContentStore = {
    ...content,
    examine: duringOutage(content.examine),
    discardDamaged: duringOutage(content.discardDamaged),
  };
  const outage = { name: 'Fault', kind: 'unavailable', message: /object store .* try again/ };
  await assert.rejects(verifyContent(restarted, hosted), outage);
  await assert.rejects(verifyContent(restarted, hosted, true), outage);
  assert.equal(await uses.isHere(digest), true);
  const found = await content.read(digest);
  assert.ok(found);
  assertBytes(found, bytes);
  await content.close();
  await database.end();
});
