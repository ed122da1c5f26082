/** Blobs that were verified recently are relayed without another hash, for the time of the setting and no longer. */
import assert from 'node:assert/strict';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { type Digest, digestOf } from '../../src/oci/digest.ts';
import { createVerifiedBlobs } from '../../src/pull/blobs/verified-blobs.ts';
import { pushCorpus } from '../corpus/corpus.ts';
import { eventually } from '../world/eventually.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';

const image = 'big:64m';

suite('a blob that changes in its registry', () => {
  let registry: Registry;
  let digest: string;
  let size: number;

  before(async () => {
    registry = await startRegistry();
    const blobs = (await pushCorpus(registry, [image])).get(image)?.image.blobs ?? [];
    const [largest] = blobs.toSorted((one, other) => other.size - one.size);
    assert.ok(largest);
    ({ digest, size } = largest);
  });
  after(() => registry?.stop());

  const start = (trust: string) =>
    startSluice({
      config: {
        upstream: { trust, attempts: 1 },
        registries: { [registry.host]: { plainHttp: true, blobs: 'relay' } },
      },
    });
  /** Pulls the blob; undefined when the connection ends before its last byte. */
  const pull = async (sluice: Sluice): Promise<Buffer | undefined> => {
    const { targetImage } = await sluice.request({
      containerImage: `${registry.host}/corpus/big:64m`,
    });
    const response = await fetch(sluice.at(targetImage, `blobs/${digest}`));
    assert.equal(response.status, 200);
    return response.arrayBuffer().then(Buffer.from, () => undefined);
  };
  /** Flips the bits of a byte in the registry. */
  const flip = async () => {
    const hex = digest.slice('sha256:'.length);
    const blobs = join(registry.directory, 'data/docker/registry/v2/blobs/sha256');
    const file = await open(join(blobs, hex.slice(0, 2), hex, 'data'), 'r+');
    try {
      const byte = Buffer.alloc(1);
      const position = Math.floor(size / 2);
      await file.read(byte, 0, 1, position);
      await file.write(Buffer.of(~(byte[0] ?? 0) & 0xff), 0, 1, position);
    } finally {
      await file.close();
    }
  };
  const digestOfPull = async (sluice: Sluice) => {
    const bytes = await pull(sluice);
    return bytes && digestOf(bytes);
  };

  test('is never whole where every blob is hashed', async () => {
    await using sluice = await start('0s');
    assert.equal(await digestOfPull(sluice), digest);
    await flip();
    try {
      assert.equal(await pull(sluice), undefined);
    } finally {
      await flip();
    }
    assert.equal(await digestOfPull(sluice), digest);
  });

  test('is relayed as it is after it was right, and not before', async () => {
    await using sluice = await start('1h');
    await flip();
    try {
      assert.equal(await pull(sluice), undefined, 'it was not right yet');
      await flip();
      assert.equal(await digestOfPull(sluice), digest);
      await flip();
      const changed = await pull(sluice);
      assert.equal(changed?.length, size);
      assert.notEqual(digestOf(changed), digest);
    } finally {
      await flip();
    }
  });
});

test('a blob is trusted for one registry, and only for a time', async () => {
  const [blob, other] = [`sha256:${'a'.repeat(64)}`, `sha256:${'b'.repeat(64)}`] as Digest[];
  assert.ok(blob && other);
  const verified = createVerifiedBlobs(1000);
  verified.add('one.example.org', blob);
  assert.ok(verified.has('one.example.org', blob));
  assert.ok(!verified.has('two.example.org', blob));
  assert.ok(!verified.has('one.example.org', other));
  await eventually('the time is over', () => !verified.has('one.example.org', blob));
  const never = createVerifiedBlobs(0);
  never.add('one.example.org', blob);
  assert.ok(!never.has('one.example.org', blob));
});
