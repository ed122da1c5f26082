/** Layers that are dated on a thread: they are the same as on this one. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { Readable } from 'node:stream';
import { suite, test } from 'node:test';
import { gunzipSync, zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import { TarError } from '../../src/archives/tar-entry.ts';
import { onDatingThread } from '../../src/builds/solve/dating/dating-thread.ts';
import {
  buildTime,
  createLayerDater,
  type LayerDater,
  type LayerForm,
  type PackedLayer,
} from '../../src/builds/solve/dating/redate-layer.ts';
import { digestOf } from '../../src/oci/digest.ts';
import { type TarPart, tarOf } from '../sif/tar-file.ts';
import { makeTempDir, type TempDir } from '../world/temp-dir.ts';

const now = buildTime + 1_000_003;
const random = randomBytes(5_000_000);
const { signal } = new AbortController();

function compiled(size: number): Buffer {
  const content = Buffer.alloc(40, 7);
  content.set([0xcb, 0x0d, 0x0d, 0x0a]);
  content.writeUInt32LE(0, 4);
  content.writeUInt32LE(now, 8);
  content.writeUInt32LE(size, 12);
  return content;
}

const part = (name: string, content: string | Buffer): TarPart => ({
  ...{ name, mtime: now, content: Buffer.from(content) },
});
const below = [part('one.py', 'VALUE = 1\n'), part('random', random)];
const above = [
  part('__pycache__/one.cpython-312.pyc', compiled(10)),
  part('text', 'a line of text\n'.repeat(200_000)),
];

async function layersIn(directory: TempDir): Promise<PackedLayer[]> {
  const path = directory.join('below');
  const packed = zstdCompressSync(tarOf(below));
  await writeFile(path, packed);
  const small = tarOf(above);
  return [
    { size: packed.length, packing: 'zstd', path, open: () => createReadStream(path) },
    { size: small.length, packing: undefined, open: () => Readable.from([Buffer.from(small)]) },
  ];
}

async function datedBy(dater: LayerDater, layers: readonly PackedLayer[], form: LayerForm) {
  for (const layer of layers) assert.equal(await dater.read(layer), true);
  const made: { tarDigest: string; bytes: Buffer }[] = [];
  for (const layer of layers) {
    const pieces: Buffer[] = [];
    const put = async (piece: Uint8Array) => void pieces.push(Buffer.from(piece));
    const tarDigest = await dater.write(layer, form, put);
    made.push({ tarDigest, bytes: Buffer.concat(pieces) });
  }
  assert.equal(await dater.compiled(), 1);
  return made;
}

suite('layers dated on a thread', () => {
  const forms: readonly LayerForm[] = [
    { mode: 'gzip' },
    { mode: 'gzip', level: 1 },
    { mode: 'zstd' },
  ];
  for (const form of forms) {
    test(`they are the same: ${JSON.stringify(form)}`, async () => {
      await using directory = await makeTempDir('dating-thread');
      const layers = await layersIn(directory);
      const here = await datedBy(createLayerDater(), layers, form);
      const there = await onDatingThread(dater => datedBy(dater, layers, form), signal);
      assert.deepEqual(there, here);
      const unpack = form.mode === 'gzip' ? gunzipSync : zstdDecompressSync;
      for (const { tarDigest, bytes } of there) assert.equal(digestOf(unpack(bytes)), tarDigest);
      const [lower, upper] = there.map(({ bytes }) => bytes.length);
      assert.ok((lower ?? 0) < random.length * 1.001);
      assert.ok((upper ?? 0) < 100_000);
    });
  }

  test('the bytes of a layer do not change with releases of Sluice and Node', async () => {
    await using directory = await makeTempDir('dating-thread');
    const [, layer] = await layersIn(directory);
    const pieces: Buffer[] = [];
    const put = async (piece: Uint8Array) => void pieces.push(Buffer.from(piece));
    assert.ok(layer);
    await onDatingThread(dater => dater.write(layer, { mode: 'gzip' }, put), signal);
    assert.equal(
      digestOf(Buffer.concat(pieces)),
      'sha256:03e46c45426a4e6742d00e08a31c0c2782b179a92ea26e02cbd410c1fd28ad62',
    );
  });

  test('a failure and an end of the caller end it', async () => {
    const packed: PackedLayer = {
      ...{ size: 700, packing: undefined },
      open: () => Readable.from([tarOf([part('a', 'text')]).subarray(0, 700)]),
    };
    await assert.rejects(
      onDatingThread(dater => dater.read(packed), signal),
      error => error instanceof TarError && /in the middle of a tar entry/.test(error.message),
    );
    const stop = new AbortController();
    const stopped = onDatingThread(async dater => {
      stop.abort(new Error('the caller ended it'));
      return dater.read(packed);
    }, stop.signal);
    await assert.rejects(stopped, /the caller ended it/);
  });
});
