import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { open, readdir, writeFile } from 'node:fs/promises';
import { test } from 'node:test';
import type { Fault } from '../../src/foundation/fault.ts';
import { type ConvertOptions, convertToSif, type SifSource } from '../../src/images/sif/convert.ts';
import { openOutput } from '../../src/images/sif/squashfs/write/squashfs-output.ts';
import type { ByteSource } from '../../src/storage/content/byte-source.ts';
import { bytesOf, contentOf, mediaTypes } from '../corpus/content.ts';
import { type Layer, retyped } from '../corpus/layer.ts';
import { eventually } from '../world/eventually.ts';
import { makeTempDir } from '../world/temp-dir.ts';
import { noLimits, optionsFor, sourceOf } from './conversion.ts';
import { layerOfTar, type TarPart, tarLayer, tarOf } from './tar-file.ts';

/** Converts an invalid image, and checks that nothing is left. Returns the error. */
async function failure(
  source: SifSource | readonly Layer[],
  more: Partial<ConvertOptions> = {},
): Promise<Error> {
  await using directory = await makeTempDir('sif-failure');
  const image = 'layers' in source ? source : sourceOf(source);
  const options = { ...optionsFor(directory.path), ...more };
  const error = await convertToSif(image, options).then(
    () => assert.fail('it was converted'),
    (cause: Error) => cause,
  );
  assert.deepEqual(await readdir(directory.path), []);
  assert.ok(!error.message.includes(directory.path), error.message);
  return error;
}

const good = tarLayer([{ name: 'good', content: 'x' }]);
const random = layerOfTar(tarOf([{ name: 'noise', content: randomBytes(200_000) }]));

/** A layer with other bytes, which the manifest describes correctly. */
function changed({ content, diffId }: Layer, change: (bytes: Buffer) => Buffer): Layer {
  return { content: contentOf(content.mediaType, change(bytesOf(content))), diffId };
}

const cut = (bytes: Buffer) => bytes.subarray(0, bytes.length - 20);
const flipped = (bytes: Buffer) => {
  bytes[100_000] = (bytes[100_000] ?? 0) ^ 0xff;
  return bytes;
};

const broken: Readonly<Record<string, { layer: Layer; message: RegExp }>> = {
  'gzip data cut short': {
    layer: changed(random, cut),
    message: /^The image's layer 2 of 3 cannot be unpacked: its gzip data is damaged or cut short$/,
  },
  'gzip data damaged': { layer: changed(random, flipped), message: /layer 2 of 3 .*gzip data/ },
  'zstd data cut short': {
    layer: changed(layerOfTar(tarOf([{ name: 'a', content: 'x'.repeat(1e6) }]), 'zstd'), cut),
    message: /its zstd data is damaged or cut short/,
  },
  'a tar file cut short': {
    layer: layerOfTar(cut(tarOf([{ name: 'a', content: 'x' }], { end: false }))),
    message: /layer 2 of 3 ends in the middle of a tar entry/,
  },
  'no tar file': {
    layer: layerOfTar(Buffer.from('<html>'.repeat(1000)), 'none'),
    message: /layer 2 of 3 is not a tar archive/,
  },
  'a sparse file': {
    layer: tarLayer([{ name: 'thin', type: 'gnu-sparse' }]),
    message: /layer 2 of 3 has a sparse file, "thin"/,
  },
  'a name that would change the log': {
    layer: tarLayer([{ name: 'x\ny\x1b[31m', type: 'link', link: 'absent' }]),
    message: /a hard link, "x\\ny\\u001b\[31m", to/,
  },
};

for (const [name, { layer, message }] of Object.entries(broken)) {
  test(`a layer that is ${name} is reported`, async () => {
    const error = await failure([good, layer, good]);
    assert.match(error.message, message);
    assert.equal((error as Fault).kind, 'bad-request');
    assert.equal((error as Fault).phase, 'layer');
  });
}

const types: Readonly<Record<string, RegExp>> = {
  'application/vnd.docker.image.rootfs.foreign.diff.tar.gzip': /may not be distributed/,
  'application/vnd.oci.image.layer.nondistributable.v1.tar+gzip': /may not be distributed/,
  'application/vnd.oci.image.layer.v1.tar+gzip+encrypted': /is encrypted/,
  'application/vnd.sylabs.sif.layer.v1.sif': /has the type "application\/vnd\.sylabs/,
};

for (const [type, message] of Object.entries(types)) {
  test(`a layer of type ${type} is refused before anything is fetched`, async () => {
    const source = sourceOf([good, retyped(good, type)]);
    const error = await failure({ ...source, openLayer: () => assert.fail('it was fetched') });
    assert.match(error.message, message);
    assert.match(error.message, /layer 2 of 2/);
  });
}

const wrong: Readonly<Record<string, { bytes: Buffer; message: RegExp }>> = {
  'other bytes': { bytes: flipped(bytesOf(random.content)), message: /does not have the digest/ },
  'fewer bytes': { bytes: cut(bytesOf(random.content)), message: /is smaller than its manifest/ },
  'more bytes': {
    bytes: Buffer.concat([bytesOf(random.content), Buffer.alloc(1)]),
    message: /is larger than its manifest/,
  },
};

for (const [name, { bytes, message }] of Object.entries(wrong)) {
  test(`a registry that sends ${name} than the manifest states is detected`, async () => {
    const sent = sourceOf([{ content: contentOf(mediaTypes.ociLayer, bytes), diffId: '' }]);
    const [layer] = sent.layers;
    assert.ok(layer);
    const source = {
      ...sourceOf([random]),
      openLayer: (_: unknown, signal: AbortSignal) => sent.openLayer(layer, signal),
    };
    const error = await failure(source);
    assert.match(error.message, message);
    assert.equal((error as Fault).kind, 'upstream');
  });
}

test('an unavailable layer ends the other downloads', async () => {
  const unreachable = new Error('the registry is gone');
  let ending: unknown;
  let isOther = false;
  const error = await failure({
    ...sourceOf([random, good]),
    async openLayer({ digest }) {
      if (digest === random.content.digest) {
        await eventually('the other is fetched', () => isOther);
        throw unreachable;
      }
      isOther = true;
      return endless(cause => {
        ending ??= cause;
      });
    },
  });
  assert.equal(error, unreachable);
  assert.equal(ending, unreachable);
});

/** Never gives a byte. */
function endless(onEnd: (reason: unknown) => void): ByteSource {
  const { promise, reject } = Promise.withResolvers<null>();
  // It may end before anybody reads.
  promise.catch(() => {});
  return {
    read: () => promise,
    destroy(reason) {
      onEnd(reason);
      reject(reason ?? new Error('closed'));
    },
  };
}

const limits: Readonly<Record<string, Partial<typeof noLimits>>> = {
  '3 files': { maxEntries: 3 },
  '100000 unpacked bytes': { maxUnpackedBytes: 100_000 },
  '150000 bytes of disk space': { maxScratchBytes: 150_000 },
};

for (const [text, limit] of Object.entries(limits)) {
  test(`an image of more than ${text} is refused`, async () => {
    const names = ['a', 'b', 'c', 'd'].map((name): TarPart => ({ name, content: 'x' }));
    const layers = [tarLayer(names), random];
    const error = await failure(layers, { limits: { ...noLimits, ...limit } });
    assert.match(error.message, new RegExp(`exceeds the limit of ${text}`));
    assert.equal((error as Fault).kind, 'too-large');
    assert.equal((error as Fault).phase, 'limit');
  });
}

test('a file that grows beyond the disk space ends the conversion', async () => {
  const size = 200 * 1024 * 1024;
  const noise = Buffer.alloc(size, randomBytes(1024 * 1024));
  for (let at = 0; at < size; at += 1024 * 1024) noise.writeUInt32LE(at, at);
  await using directory = await makeTempDir('local');
  const path = directory.join('layer');
  const parts = Array.from({ length: 20 }, (_, index): TarPart => {
    return {
      name: `noise-${index}`,
      content: noise.subarray((index * size) / 20, ((index + 1) * size) / 20),
    };
  });
  await writeFile(path, tarOf(parts));
  const source = { ...sourceOf([good]), localPath: async () => path };
  const error = await failure(source, { limits: { ...noLimits, maxScratchBytes: 20e6 } });
  assert.match(error.message, /exceeds the limit of 20000000 bytes of disk space/);
});

test('a thread that cannot compress ends the conversion', async () => {
  // libdeflate knows no such level: as if the thread had no memory for its compressor.
  const compression = { mode: 'gzip', level: 99 } as const;
  const layer = tarLayer([{ name: 'text', content: 'It goes on. '.repeat(100_000) }]);
  const error = await failure([layer], { compression });
  assert.equal(error.message, 'a thread that compresses a Singularity image ended');
  assert.match(String(error.cause), /there is no memory to compress/);
});

test('a full disk is reported', async () => {
  await using file = await open('/dev/full', 'w');
  const output = openOutput(file, 0, { take() {}, write() {} });
  const error = await output.write(Buffer.alloc(10), 0).catch(cause => cause);
  assert.equal((error as Fault).kind, 'storage-full');
  assert.match(error.message, /^The disk has no space left to make the Singularity image: /);
});

const reason = new Error('somebody has changed their mind');

test('a conversion that is cancelled before it starts does nothing', async () => {
  const signal = AbortSignal.abort(reason);
  const source = { ...sourceOf([good]), openLayer: () => assert.fail('it was fetched') };
  assert.equal(await failure(source, { signal }), reason);
});

test('a conversion that is cancelled during the download ends at once', async () => {
  const controller = new AbortController();
  const source: SifSource = {
    ...sourceOf([random, good]),
    async openLayer({ digest }, signal) {
      setTimeout(() => controller.abort(reason), 50);
      if (digest === good.content.digest) return endless(() => {});
      await new Promise(resolve => signal.addEventListener('abort', resolve));
      throw new Error('said in other words');
    },
  };
  assert.equal(await failure(source, { signal: controller.signal }), reason);
});

for (const name of ['content', 'names']) {
  test(`a conversion that is cancelled while it writes ${name} ends at once`, async () => {
    const parts =
      name === 'content'
        ? Array.from({ length: 40 }, (_, index): TarPart => {
            return { name: `noise-${index}`, content: randomBytes(1024 * 1024) };
          })
        : Array.from({ length: 20_000 }, (_, index): TarPart => ({ name: `name-${index}` }));
    const controller = new AbortController();
    const log = (line: string) => {
      if (line.startsWith('writing squashfs')) setTimeout(() => controller.abort(reason), 5);
    };
    const options = { log, signal: controller.signal };
    // No thread keeps the process alive.
    assert.equal(await failure([tarLayer(parts, 'none')], options), reason);
  });
}

test('a layer that has changed since it was read is reported', async () => {
  await using directory = await makeTempDir('local');
  const path = directory.join('layer');
  const tar = (size: number) =>
    tarOf([{ name: 'file', content: randomBytes(size) }, { name: 'b' }]);
  await writeFile(path, tar(300_000));
  const log = (line: string) => {
    if (line.startsWith('writing squashfs')) writeFileSync(path, tar(200_000));
  };
  const source = { ...sourceOf([good]), localPath: async () => path };
  assert.match((await failure(source, { log })).message, /layer 1 of 1 changed while it was read/);
});
