/** Layers that got their dates in an earlier build. */
import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { suite, test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { anonymousDomain, type TrustDomain } from '../../src/builds/domain.ts';
import { createDatedLayers } from '../../src/builds/solve/dating/dated-layers.ts';
import { createRedateImage, type RedateDeps } from '../../src/builds/solve/dating/redate-image.ts';
import { buildTime } from '../../src/builds/solve/dating/redate-layer.ts';
import type { Descriptor } from '../../src/oci/descriptor.ts';
import { type Digest, digestOf } from '../../src/oci/digest.ts';
import { parseJson } from '../../src/oci/json.ts';
import { type Document, documentOf } from '../../src/oci/manifest.ts';
import { mediaTypes } from '../../src/oci/media-type.ts';
import { openContentDirectory } from '../../src/storage/content/content-directory.ts';
import type { ContentStore } from '../../src/storage/content/content-store.ts';
import { type TarPart, tarOf } from '../sif/tar-file.ts';
import { makeTempDir } from '../world/temp-dir.ts';

const now = buildTime + 1_000_003;
const ann: TrustDomain = { name: 'user ann', callerKind: 'known', isAlone: false };
const alone: TrustDomain = { name: 'build 1', callerKind: 'known', isAlone: true };

const file = (name: string, text = 'text\n', mtime = now): TarPart => ({
  ...{ name, mtime, content: Buffer.from(text) },
});

/** Compiled code of Python 3.12. */
function compiled(name: string, size: number): TarPart {
  const content = Buffer.alloc(40, 7);
  content.set([0xcb, 0x0d, 0x0d, 0x0a]);
  content.writeUInt32LE(0, 4);
  content.writeUInt32LE(now, 8);
  content.writeUInt32LE(size, 12);
  return { name, mtime: now, content };
}

async function startWorld() {
  await using stack = new AsyncDisposableStack();
  const directory = stack.use(await makeTempDir('dated'));
  const content: ContentStore = await openContentDirectory(directory.join('content'));
  stack.defer(() => content.close());
  const whole = stack.move();
  const dated = createDatedLayers(content);
  const redate = createRedateImage({ content, ownHost: 'sluice.test' } as unknown as RedateDeps);

  /** Sets the dates of an image; returns its layers, and how often the layers that were sent were opened. */
  const image = async (layers: readonly (readonly TarPart[])[], domain = ann) => {
    const known = dated.of(domain, undefined);
    const sent = new Map<Digest, Buffer>();
    const send = (bytes: Buffer, mediaType: string): Document => {
      const document = documentOf(bytes, mediaType);
      sent.set(document.digest, bytes);
      return document;
    };
    const tars = layers.map(parts => send(tarOf(parts), 'application/vnd.oci.image.layer.v1.tar'));
    const rootfs = { type: 'layers', diff_ids: tars.map(({ digest }) => digest) };
    const config = send(Buffer.from(JSON.stringify({ rootfs })), mediaTypes.ociConfig);
    const body = {
      ...{ schemaVersion: 2, mediaType: mediaTypes.ociManifest },
      ...{ config: described(config), layers: tars.map(described) },
    };
    const root = send(Buffer.from(JSON.stringify(body)), mediaTypes.ociManifest);
    for (const { digest } of tars) if (await known.hold(digest)) sent.delete(digest);
    const opened: number[] = [];
    const blob = (digest: Digest) => {
      const bytes = sent.get(digest);
      return bytes && { size: bytes.length, open: () => read(digest, bytes) };
    };
    const read = (digest: Digest, bytes: Buffer) => {
      const at = tars.findIndex(tar => tar.digest === digest);
      if (at >= 0) opened.push(at);
      return Readable.from([Buffer.from(bytes)]);
    };
    const made = await redate(
      {
        ...{ digest: root.digest, mediaType: root.mediaType, received: { blob }, known },
        ...{
          elsewhere: new Map(),
          source: { registry: 'sluice.test', repository: 'a', credentials: undefined },
        },
      },
      { bases: [] },
      () => {},
      new AbortController().signal,
    );
    const manifest = parseJson(made.root.bytes, 'manifest') as unknown as {
      readonly layers: readonly Descriptor[];
    };
    const digests = manifest.layers.map(({ digest }) => digest);
    assert.deepEqual(made.added, digests);
    return { digest: made.root.digest, digests, opened: [...new Set(opened)].sort() };
  };

  return {
    ...{ content, image, dated },
    unpacked: async (digest: Digest) => gunzipSync((await content.read(digest)) ?? ''),
    [Symbol.asyncDispose]: () => whole.disposeAsync(),
  };
}

function described({ digest, mediaType, bytes }: Document) {
  return { digest, mediaType, size: bytes.length };
}

const plain = [file('a')];
const other = [file('b')];

suite('dated layers', () => {
  test('a layer of a build before is neither sent nor read, and the image is the same', async () => {
    await using world = await startWorld();
    const first = await world.image([plain]);
    assert.deepEqual(first.opened, [0]);
    const again = await world.image([plain]);
    assert.deepEqual(again, { ...first, opened: [] });
    const more = await world.image([plain, other]);
    assert.deepEqual(more.opened, [1]);
    assert.equal(more.digests[0], first.digests[0]);
  });

  test('other domains and builds that are alone do not have it', async () => {
    await using world = await startWorld();
    const { digests } = await world.image([plain]);
    for (const domain of [anonymousDomain, alone, alone]) {
      const { opened, ...image } = await world.image([plain], domain);
      assert.deepEqual(opened, [0], domain.name);
      assert.deepEqual(image.digests, digests);
    }
    const ofAlone = world.dated.of(alone, undefined);
    assert.equal(await ofAlone.hold(digestOf(tarOf(plain))), false);
  });

  test('another compression is another layer', async () => {
    await using world = await startWorld();
    await world.image([plain]);
    const digest = digestOf(tarOf(plain));
    for (const [mode, level, isHeld] of [
      ['gzip', undefined, true],
      ['gzip', 9, false],
      ['zstd', undefined, false],
    ] as const) {
      const compression = { mode, ...(level === undefined ? {} : { level }) };
      assert.equal(await world.dated.of(ann, compression).hold(digest), isHeld, mode);
    }
  });

  test('a layer whose content was removed is dated again', async () => {
    await using world = await startWorld();
    const first = await world.image([plain]);
    await world.content.discard(first.digests[0] as Digest);
    assert.deepEqual(await world.image([plain]), first);
  });

  test('byte code depends on the sources in all layers', async () => {
    await using world = await startWorld();
    const source = [file('lib/a.py', 'VALUE = 1\n')];
    const edited = [file('lib/a.py', 'VALUE = 22\n', now + 5)];
    const code = [compiled('lib/__pycache__/a.cpython-312.pyc', 10)];
    const both = await world.image([source, code, plain]);
    const again = await world.image([source, code, other]);
    assert.deepEqual(again.opened, [2]);
    assert.deepEqual(again.digests.slice(0, 2), both.digests.slice(0, 2));
    const changed = await world.image([edited, code, plain]);
    assert.deepEqual(changed.opened, [0, 1]);
    assert.equal(changed.digests[2], both.digests[2]);
    assert.notEqual(changed.digests[1], both.digests[1]);
    const stampOf = async (digest: Digest | undefined) =>
      (await world.unpacked(digest as Digest)).readUInt32LE(512 + 8);
    assert.equal(await stampOf(both.digests[1]), buildTime);
    assert.equal(await stampOf(changed.digests[1]), 0);
    // The same images without a memory.
    await using fresh = await startWorld();
    assert.equal((await fresh.image([edited, code, plain])).digest, changed.digest);
  });

  test('sources that are read again count in the order of their layers', async () => {
    await using world = await startWorld();
    const old = [file('a.py', 'one\n')];
    const replaced = [file('a.py', 'second\n', now + 9)];
    const code = [compiled('__pycache__/a.cpython-312.pyc', 4)];
    await world.image([replaced]);
    const mixed = await world.image([old, replaced, code]);
    await using fresh = await startWorld();
    assert.equal((await fresh.image([old, replaced, code])).digest, mixed.digest);
  });
});
