/** The object store of deploy/compose: what Sluice has acknowledged is there after a power failure, as setup.cjs prepares it. */
import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { test } from 'node:test';
import { GetObjectCommand, ListObjectsV2Command } from '@aws-sdk/client-s3';
import { digestOf } from '../../src/oci/digest.ts';
import { pattern } from '../faults/scripted-upstream.ts';
import { administered, expect, Repository } from '../hosted/push-client.ts';
import { startObjectStore } from '../world/object-store.ts';
import { makePowerDisk } from '../world/power-disk.ts';
import { startSluice } from '../world/sluice.ts';

interface Setup {
  makeSynchronous(path: string): void;
}
const { makeSynchronous } = createRequire(import.meta.url)(
  '../../deploy/compose/setup.cjs',
) as Setup;

const cuts = 8;

test('acknowledged blobs and manifests are in the object store after a power failure', async () => {
  await using disk = await makePowerDisk();
  const place = join(disk.path, 'store');
  await mkdir(join(place, 'old'), { recursive: true });
  await writeFile(join(place, 'old/file'), 'of a site that was set up before');
  makeSynchronous(place);
  await using store = await startObjectStore({ place });
  const bucket = await store.createBucket();
  await using sluice = await startSluice({
    config: administered,
    env: {
      ...store.env,
      SLUICE_CONTENT: `s3://${bucket}/site`,
      SLUICE_S3_ENDPOINT: store.url,
      SLUICE_S3_REGION: 'us-east-1',
      SLUICE_S3_PATH_STYLE: 'true',
    },
  });
  const repository = new Repository(sluice, 'team/app');
  for (let at = 0; at < cuts; at += 1) {
    // A large one is uploaded in parts.
    const layer = pattern(at === 0 ? 20 * 2 ** 20 : 20_000, `layer ${at}`);
    const config = Buffer.from(JSON.stringify({ version: at }));
    for (const blob of [layer, config]) expect(await repository.pushBlob(blob), 201);
    expect(await repository.pushManifest('latest', config, [layer]), 201);
    const copy = await disk.copy();
    await using opened = await copy.open();
    await using restarted = await startObjectStore({ place: join(opened.path, 'store') });
    for (const blob of [layer, config]) {
      assert.equal(await storedDigest(restarted, bucket, digestOf(blob)), digestOf(blob));
    }
  }
});

/** Returns the digest of the stored bytes of a blob; undefined if the store has none. */
async function storedDigest(
  { client }: Awaited<ReturnType<typeof startObjectStore>>,
  Bucket: string,
  digest: string,
): Promise<string | undefined> {
  const { Contents = [] } = await client.send(new ListObjectsV2Command({ Bucket }));
  const hex = digest.slice('sha256:'.length);
  const key = Contents.find(({ Key = '' }) => Key.replaceAll('/', '').includes(hex))?.Key;
  if (key === undefined) return undefined;
  const { Body } = await client.send(new GetObjectCommand({ Bucket, Key: key }));
  return digestOf(Buffer.from((await Body?.transformToByteArray()) ?? []));
}
