import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { Fault } from '../../src/foundation/fault.ts';
import { readSif } from '../../src/images/sif/format/read-sif.ts';
import { type SifContents, sifHead } from '../../src/images/sif/format/sif-file.ts';

const contents: SifContents = {
  definition: 'bootstrap: docker\nfrom: image\n\n',
  inspectMetadata: { data: { attributes: { runscript: 'x'.repeat(50_000) } }, type: 'container' },
  ociConfig: { Cmd: ['sh'] },
  architecture: 'amd64',
  createdAt: 0,
  id: Buffer.alloc(16, 1),
};
const squashfs = Buffer.alloc(5000, 'sqsh');
const whole = Buffer.concat([sifHead(contents, squashfs.length), squashfs]);

const [magicAt, countAt, tableAt] = [32, 88, 96];
const [firstDescriptor, descriptorSize, offsetIn, sizeIn] = [4096, 585, 17, 25];

/** Reads bytes as a file, and counts what was asked for. */
async function read(
  bytes: Buffer,
  asked: { bytes: number; times: number } = { bytes: 0, times: 0 },
) {
  return readSif(async (offset, length) => {
    asked.bytes += length;
    asked.times += 1;
    return bytes.subarray(offset, offset + length);
  });
}

function changed(change: (bytes: Buffer) => void): Buffer {
  const bytes = Buffer.from(whole);
  change(bytes);
  return bytes;
}

/** Returns the message of the `Fault` for these bytes. */
async function refusal(bytes: Buffer): Promise<string> {
  const error = await read(bytes).then(
    () => assert.fail('it was read'),
    error => error,
  );
  assert.ok(error instanceof Fault, String(error));
  assert.equal(error.kind, 'upstream');
  return error.message;
}

test('the file system is not read, and the data before it in few pieces', async () => {
  const asked = { bytes: 0, times: 0 };
  const { metadata, squashfs: place } = await read(whole, asked);
  assert.deepEqual(metadata, contents.inspectMetadata);
  assert.deepEqual(place, { offset: whole.length - squashfs.length, size: squashfs.length });
  assert.ok(asked.times <= 3, `${asked.times} reads`);
  assert.ok(asked.bytes < 200_000, `${asked.bytes} bytes`);
});

test('a truncated file is refused with a sentence, at any length up to the end of its last text', async () => {
  const { objects } = await read(whole);
  const texts = objects.filter(({ type }) => type !== 'partition');
  const end = Math.max(...texts.map(({ offset, size }) => offset + size));
  await read(whole.subarray(0, end));
  for (let length = 0; length < end; length += length < 200 ? 1 : 997) {
    assert.match(await refusal(whole.subarray(0, length)), /^The SIF file is broken \(it ends/);
  }
});

test('other files are refused as not SIF', async () => {
  assert.match(await refusal(Buffer.alloc(100_000)), /^This is not a SIF file/);
  const bytes = changed(copy => copy.write('SIF_MAGIX', magicAt));
  assert.match(await refusal(bytes), /^This is not a SIF file/);
});

test('impossible numbers are refused with a sentence', async () => {
  const cases: readonly [number, bigint, RegExp][] = [
    [countAt, 1_000_000_000n, /room for 1000000000 objects/],
    [countAt, -1n, /specifies -1 as the number of its objects/],
    [tableAt, 2n ** 62n, /specifies 4611686018427387904 as the place of its table/],
    [tableAt, 2n ** 50n, /ends before its table of objects does/],
    [firstDescriptor + offsetIn, -5n, /specifies -5 as the place of an object/],
    [firstDescriptor + offsetIn, 2n ** 52n, /ends before its definition does/],
    [firstDescriptor + sizeIn, 2n ** 40n, /its definition has 1099511627776 bytes/],
    [
      firstDescriptor + descriptorSize + sizeIn,
      7n,
      /its inspect-metadata.json is not a JSON object/,
    ],
  ];
  for (const [at, value, message] of cases) {
    assert.match(await refusal(changed(bytes => bytes.writeBigInt64LE(value, at))), message);
  }
});

test('a file without a partition to run, or with another file system, has no squashfs', async () => {
  const partition = firstDescriptor + 3 * descriptorSize;
  const unused = await read(changed(bytes => bytes.writeUInt8(0, partition + 4)));
  assert.equal(unused.squashfs, undefined);
  assert.equal(unused.objects.length, 3);
  const other = await read(changed(bytes => bytes.writeInt32LE(2, partition + 201)));
  assert.equal(other.squashfs, undefined);
  const data = await read(changed(bytes => bytes.writeInt32LE(3, partition + 205)));
  assert.equal(data.squashfs, undefined);
});

test('a file with any changed bytes is read or refused with a sentence, at limited cost', async () => {
  const place = fc.oneof(fc.nat(127), fc.integer({ min: 4096, max: 4096 + 4 * 585 }));
  const value = fc.oneof(
    fc.uint8Array({ minLength: 1, maxLength: 8 }),
    fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }).map(number => {
      const bytes = Buffer.alloc(8);
      bytes.writeBigInt64LE(number);
      return bytes;
    }),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(fc.tuple(place, value), { maxLength: 6 }), async changes => {
      const asked = { bytes: 0, times: 0 };
      const bytes = changed(copy => {
        for (const [at, value] of changes) copy.set(value, at);
      });
      try {
        await read(bytes, asked);
      } catch (error) {
        assert.ok(error instanceof Fault, String(error));
      }
      assert.ok(asked.bytes < 20 * 1024 * 1024 && asked.times < 10, JSON.stringify(asked));
    }),
    { numRuns: 2000 },
  );
});

test('random bytes are refused as not SIF; after the magic word they are read or refused with a sentence', async () => {
  const random = fc.uint8Array({ maxLength: 6000, size: 'max' }).map(bytes => Buffer.from(bytes));
  await fc.assert(
    fc.asyncProperty(random, async bytes => {
      assert.match(await refusal(bytes), /^This is not a SIF file|^The SIF file is broken/);
      if (bytes.length < 128) return;
      bytes.write('SIF_MAGIC\0', magicAt);
      await read(bytes).catch(error => assert.ok(error instanceof Fault, String(error)));
    }),
  );
});

test('an error of the range reader is passed on', async () => {
  const gone = new Error('gone');
  await assert.rejects(
    readSif(async () => {
      throw gone;
    }),
    gone,
  );
});
