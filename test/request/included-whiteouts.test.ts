/** `containerIncludes` of images whose layers delete files. */
import assert from 'node:assert/strict';
import { after, before, beforeEach, suite, test } from 'node:test';
import { gunzipSync, gzipSync, zstdCompressSync } from 'node:zlib';
import { TarReader } from '../../src/archives/index.ts';
import { digestOf } from '../../src/oci/digest.ts';
import { createStackRewriter } from '../../src/request/layers/rewritten-stack.ts';
import { drain, sourceOfBytes } from '../../src/storage/content/byte-source.ts';
import { postJson } from '../faults/fault-world.ts';
import { assertApiFault, call } from '../faults/http-client.ts';
import {
  pattern,
  type ScriptedUpstream,
  startScriptedUpstream,
} from '../faults/scripted-upstream.ts';
import { type TarPart, tarOf } from '../sif/tar-file.ts';
import { eventually } from '../world/eventually.ts';
import { boundMs } from '../world/longest-block.ts';
import { startWatchedSluice, type WatchedSluice } from '../world/watched-sluice.ts';

const imageType = 'application/vnd.oci.image.manifest.v1+json';
const configType = 'application/vnd.oci.image.config.v1+json';
const tarType = 'application/vnd.oci.image.layer.v1.tar';

interface Packed {
  readonly bytes: Buffer;
  readonly type: '' | '+gzip' | '+zstd';
  readonly annotations?: Readonly<Record<string, string>>;
}

const layerType = 'application/vnd.oci.image.layer.v1.tar+gzip';
const layerOf = (...parts: readonly TarPart[]) => gzipSync(tarOf(parts));
const fileLayer = (name: string) => layerOf({ name, content: name });

/** Returns the entries of a tar file, sorted: files with their content, links with their target. */
const partsIn = (tar: Buffer): string[] => {
  const found: string[] = [];
  let content: Buffer[] = [];
  let open: ((bytes: Buffer) => void) | undefined;
  const finish = () => open?.(Buffer.concat(content));
  const reader = new TarReader({
    entry({ path, kind, size, link }) {
      finish();
      open = undefined;
      content = [];
      if (kind === 'link') found.push(`${path}->${link}`);
      else if (kind !== 'file') found.push(path);
      else {
        open = bytes => {
          const own = bytes.subarray(0, size);
          found.push(`${path}=${size > 1000 ? digestOf(own) : own}`);
        };
      }
      return kind === 'file';
    },
    content: bytes => content.push(Buffer.from(bytes)),
  });
  reader.write(tar);
  reader.end();
  finish();
  return found.toSorted();
};

test('a layer that is removed while it is written again fails the request, and nothing else', async () => {
  const bytes = layerOf({ name: '.wh.a' }, { name: 'b', content: 'b' });
  let reads = 0;
  const rewriter = createStackRewriter({
    content: {
      // It is here for the first of two readings.
      size: async () => (reads++ === 0 ? bytes.length : undefined),
      open: () => sourceOfBytes(bytes),
    },
    fetched: { find: async () => undefined, put: () => assert.fail('noted'), purge: async () => 0 },
    limits: { maxTarBytes: 1e6, fetchTimeout: 10_000 },
    async ingest(source) {
      // The failure comes before the first reading, as when the disk is slow.
      await eventually('the second reading', () => reads === 2);
      for (let turn = 0; turn < 5; turn += 1) await new Promise(setImmediate);
      await drain(source, () => {});
      return assert.fail('whole');
    },
  });
  const layer = {
    ...{
      gzipDigest: digestOf(bytes),
      gzipSize: bytes.length,
      tarDigest: digestOf(gunzipSync(bytes)),
    },
    ...{ packing: 'gzip' as const, from: 'a/b' },
  };
  const unpacked = { left: 1e6, limit: 1e6 };
  const caller = { user: 'ada', network: undefined, payer: undefined, unpacked };
  await assert.rejects(rewriter.rewrite([layer], 0, caller), {
    status: 503,
    message: /^'containerIncludes': a\/b, layer sha256:\w+ was removed/,
  });
});

suite('included images that delete files', { concurrency: 1 }, () => {
  let liar: ScriptedUpstream;
  let watched: WatchedSluice;
  let sluice: WatchedSluice['sluice'];
  let repository = '';
  let count = 0;

  before(async () => {
    liar = await startScriptedUpstream();
    watched = await startWatchedSluice({
      config: { registries: { [liar.host]: { plainHttp: true } } },
    });
    sluice = watched.sluice;
  });
  after(async () => {
    await watched?.[Symbol.asyncDispose]();
    await liar?.stop();
  });
  beforeEach(() => {
    count += 1;
    repository = `whiteouts/of-${count}`;
  });

  const put = (bytes: Buffer, mediaType: string) => {
    liar.put(`${repository}/blobs/${digestOf(bytes)}`, 'application/octet-stream', bytes);
    return { mediaType, digest: digestOf(bytes), size: bytes.length };
  };
  const putImage = (tag: string, layers: readonly Buffer[], packed?: readonly Packed[]) => {
    const rootfs = { type: 'layers', diff_ids: layers.map(one => digestOf(gunzipSync(one))) };
    const config = { os: 'linux', architecture: 'amd64', config: {}, rootfs };
    const manifest = {
      ...{ schemaVersion: 2, mediaType: imageType },
      config: put(Buffer.from(JSON.stringify(config)), configType),
      layers: packed
        ? packed.map(({ bytes, type, ...more }) => ({
            ...put(bytes, `${tarType}${type}`),
            ...more,
          }))
        : layers.map(one => put(one, layerType)),
    };
    liar.put(`${repository}/manifests/${tag}`, imageType, Buffer.from(JSON.stringify(manifest)));
    liar.put(
      `${repository}/manifests/${digestOf(Buffer.from(JSON.stringify(manifest)))}`,
      imageType,
      Buffer.from(JSON.stringify(manifest)),
    );
  };
  const nameOf = (tag: string) => `${liar.host}/${repository}:${tag}`;
  const ask = (base: string, includes: readonly string[]) =>
    postJson(`${sluice.url}/v1alpha2/container`, {
      containerImage: nameOf(base),
      containerIncludes: includes.map(nameOf),
    });
  /** Returns the digests of the layers of a served image. */
  const served = async (reply: Awaited<ReturnType<typeof ask>>, tag: string): Promise<string[]> => {
    assert.equal(reply.status, 200, reply.body.toString());
    const { targetImage } = JSON.parse(reply.body.toString());
    const { body } = await call(sluice.at(targetImage, `manifests/${tag}`));
    return JSON.parse(body.toString()).layers.map(({ digest }: { digest: string }) => digest);
  };
  /** Returns the names in each layer of a served image, with the content of files and the target of links. */
  const namesIn = async (reply: Awaited<ReturnType<typeof ask>>, tag: string) => {
    const layers = await served(reply, tag);
    const { targetImage } = JSON.parse(reply.body.toString());
    return Promise.all(
      layers.map(async digest => {
        const { body } = await call(sluice.at(targetImage, `blobs/${digest}`));
        return partsIn(gunzipSync(body));
      }),
    );
  };

  test('a whiteout deletes files of its own image, and none of the base', async () => {
    const big = pattern(300_000, 'big');
    putImage('base', [fileLayer('keep/me'), fileLayer('gone/base')]);
    const layers = [
      layerOf(
        { name: 'gone/', type: 'directory' },
        { name: 'gone/tool', content: 'tool' },
        { name: 'gone/big', content: big },
        { name: './stays', content: 'stays' },
        { name: 'first', type: 'link', link: 'gone/big' },
        { name: 'second', type: 'link', link: './gone/big' },
        { name: `${'d/'.repeat(60)}long`, content: 'long' },
        { name: 'cache/a', content: 'a' },
      ),
      layerOf({ name: 'cache/b', content: 'b' }, { name: 'untouched', content: 'x' }),
      layerOf(
        { name: '.wh.gone' },
        { name: './keep/.wh.me' },
        { name: 'cache/.wh..wh..opq' },
        { name: 'cache/c', content: 'c' },
        { name: '.wh..wh.plnk' },
      ),
      fileLayer('above'),
    ];
    putImage('tool', layers);
    const reply = await ask('base', ['tool']);
    const names = await namesIn(reply, 'base');
    assert.deepEqual(names, [
      ['keep/me=keep/me'],
      ['gone/base=gone/base'],
      [
        `first=${digestOf(big)}`,
        'second->first',
        './stays=stays',
        `${'d/'.repeat(60)}long=long`,
      ].toSorted(),
      ['untouched=x'],
      ['cache/c=c'],
      ['above=above'],
    ]);
    // Layers without a change stay the same blobs.
    const digests = await served(reply, 'base');
    assert.equal(digests[5], digestOf(layers[3] as Buffer));
    const blobs = () => liar.count('GET', `${repository}/blobs/`);
    const before = blobs();
    assert.deepEqual(await served(await ask('base', ['tool']), 'base'), digests);
    // One byte of each shows that the caller may read it.
    assert.equal(blobs(), before + layers.length);
    // Another image that names the same layers in a repository without them gets nothing.
    repository = `${repository}-other`;
    putImage('base', []);
    putImage('tool', layers);
    for (const layer of layers)
      liar.on(`${repository}/blobs/${digestOf(layer)}`, (_q, r) => r.writeHead(404).end());
    assertApiFault(await ask('base', ['tool']), 400, /'containerIncludes\[0\]': layer 1 of 4/);
  });

  test('layers keep the annotations of eStargz, unless they are written again', async () => {
    const layers = [fileLayer('gone'), layerOf({ name: '.wh.gone' }), fileLayer('stays')];
    const toc = 'containerd.io/snapshot/stargz/toc.digest';
    const size = 'io.containers.estargz.uncompressed-size';
    const lazy = { [toc]: `sha256:${'a'.repeat(64)}`, [size]: '4096' };
    const given = [lazy, lazy, { ...lazy, other: 'x' }, { ...lazy, [toc]: 'sha256:x' }];
    const all = [...layers, fileLayer('above')];
    putImage('base', [fileLayer('base')]);
    putImage(
      'lazy',
      all,
      all.map((bytes, at) => ({ bytes, type: '+gzip', annotations: given[at] ?? {} })),
    );
    const annotationsOf = async () => {
      const reply = await ask('base', ['lazy']);
      assert.equal(reply.status, 200, reply.body.toString());
      const { targetImage } = JSON.parse(reply.body.toString());
      const { body } = await call(sluice.at(targetImage, 'manifests/base'));
      const { layers: made } = JSON.parse(body.toString());
      return made.map((one: { annotations?: object }) => one.annotations);
    };
    // Those of the base, without its file, without its whiteout, unchanged, and not of eStargz.
    const expected = [undefined, undefined, undefined, lazy, undefined];
    assert.deepEqual(await annotationsOf(), expected);
    assert.deepEqual(await annotationsOf(), expected);
  });

  test('a dry run knows layers that were written before', async () => {
    putImage('base', [fileLayer('base')]);
    putImage('tool', [fileLayer('deleted'), layerOf({ name: '.wh.deleted' }, { name: 'b' })]);
    liar.on(`frozen/blobs/uploads/`, (_q, r) =>
      r.writeHead(202, { location: '/v2/frozen/blobs/uploads/1' }).end(),
    );
    const nameFrozen = async (dryRun: boolean) => {
      const reply = await postJson(`${sluice.url}/v1alpha2/container`, {
        containerImage: nameOf('base'),
        containerIncludes: [nameOf('tool')],
        freeze: true,
        buildRepository: `${liar.host}/frozen`,
        dryRun,
      });
      assert.equal(reply.status, 200, reply.body.toString());
      return JSON.parse(reply.body.toString()).targetImage as string;
    };
    const expected = await nameFrozen(true);
    const name = await nameFrozen(false);
    assert.notEqual(expected, name);
    assert.equal(await nameFrozen(true), name);
  });

  test('whiteouts that cannot be bounded to their image are refused', async () => {
    putImage('base', []);
    putImage('inside', [layerOf({ name: '.wh.a/b' })]);
    putImage('none', [layerOf({ name: 'a/.wh...' })]);
    const device = { name: 'gone', type: 'character' as const };
    putImage('device', [layerOf({ ...device, device: [0, 0] })]);
    putImage('console', [layerOf({ ...device, device: [5, 1] })]);
    for (const space of ['trusted', 'user']) {
      const pax = { [`SCHILY.xattr.${space}.overlay.opaque`]: 'y' };
      putImage(space, [layerOf({ name: 'gone', type: 'directory', pax })]);
    }
    for (const tag of ['device', 'trusted', 'user']) {
      const refused = /layer 1 of 1 of .* hides files in the form of overlayfs, "gone"/;
      assertApiFault(await ask('base', [tag]), 400, refused);
    }
    for (const tag of ['inside', 'none']) {
      const refused = /layer 1 of 1 of .* has a whiteout that names no file/;
      assertApiFault(await ask('base', [tag]), 400, refused);
    }
    assert.equal((await ask('base', ['console'])).status, 200);
    putImage('up', [fileLayer('../a'), layerOf({ name: '.wh.b' })]);
    assertApiFault(
      await ask('base', ['up']),
      400,
      /'containerIncludes': .*, layer sha256:\w+ cannot be included: it has a path that is too deep/,
    );
    const many = (at: number) => ({ name: `${'x'.repeat(4000)}/.wh.${at}` });
    putImage('many', [
      fileLayer('a'),
      layerOf(...Array.from({ length: 2200 }, (_, at) => many(at))),
    ]);
    assertApiFault(await ask('base', ['many']), 400, /it deletes too many files/);
    putImage('deep', [layerOf({ name: `${'d/'.repeat(100_000)}x` }), layerOf({ name: '.wh.b' })]);
    await watched.turns();
    assertApiFault(await ask('base', ['deep']), 400, /path that is too long/);
    assert.ok((await watched.turns()).longestMs < boundMs(100));
  });

  test('a sparse file is included as it is, and refused where its layer is written again', async () => {
    // One block with a hole before it. Source: GNU tar, PAX format 0.1.
    const pax = { 'GNU.sparse.map': '512,512', 'GNU.sparse.size': '1024' };
    const part = { name: 'holes', content: 'x'.repeat(512), pax };
    const sparse = layerOf(part);
    putImage('base', []);
    putImage('alone', [sparse]);
    assert.deepEqual(await served(await ask('base', ['alone']), 'base'), [digestOf(sparse)]);
    putImage('beside', [fileLayer('gone'), sparse, layerOf({ name: '.wh.gone' })]);
    assert.ok((await served(await ask('base', ['beside']), 'base')).includes(digestOf(sparse)));
    for (const layers of [
      [layerOf(part, { name: 'gone' }), layerOf({ name: '.wh.gone' })],
      [fileLayer('gone'), layerOf({ name: '.wh.gone' }, part)],
    ]) {
      putImage('tool', layers);
      const refused = /'containerIncludes': .*has a sparse file, "holes", above or below deleted/;
      assertApiFault(await ask('base', ['tool']), 400, refused);
    }
  });

  test('links and directories at one path replace each other, as with any layers', async () => {
    const usrBin = layerOf(
      { name: 'usr/bin/sh', content: 'sh' },
      { name: 'bin', type: 'symlink', link: 'usr/bin' },
      { name: 'opt/', type: 'directory' },
      { name: 'opt/own', content: 'own' },
    );
    putImage('base', [usrBin]);
    const changes = [
      { name: 'bin/', type: 'directory' as const },
      { name: 'bin/tool', content: 'tool' },
      { name: 'opt', type: 'symlink' as const, link: 'elsewhere' },
    ];
    // The second one is written again: a link and a directory must stay what they are.
    putImage('plain', [layerOf(...changes)]);
    putImage('written', [fileLayer('a'), layerOf({ name: '.wh.a' }, ...changes)]);
    for (const tag of ['plain', 'written']) {
      const [base, ...added] = await namesIn(await ask('base', [tag]), 'base');
      assert.ok(base?.includes('bin'));
      assert.deepEqual(added.flat(), ['bin/', 'bin/tool=tool', 'opt']);
    }
  });

  test('layers in zstd and without compression are included in gzip', async () => {
    const layers = [
      layerOf({ name: 'a', content: 'a' }, { name: 'b', content: pattern(400_000, 'b') }),
      layerOf({ name: '.wh.a' }, { name: 'c', content: 'c' }),
      fileLayer('d'),
    ] as const;
    putImage('base', []);
    const [one, two] = [gunzipSync(layers[0]), gunzipSync(layers[1])];
    // As in zstd:chunked: several frames, and one that readers skip.
    const skipped = Buffer.from('502a4d1804000000aaaaaaaa', 'hex');
    const frames = [one.subarray(0, 1000), one.subarray(1000)].map(part => zstdCompressSync(part));
    const packed: Packed[] = [
      { bytes: Buffer.concat([...frames, skipped]), type: '+zstd' },
      { bytes: two, type: '' },
      { bytes: layers[2], type: '+gzip' },
    ];
    putImage('tool', layers, packed);
    const reply = await ask('base', ['tool']);
    assert.deepEqual(await namesIn(reply, 'base'), [
      [`b=${digestOf(pattern(400_000, 'b'))}`],
      ['c=c'],
      ['d=d'],
    ]);
    assert.equal((await served(reply, 'base'))[2], digestOf(layers[2]));
    putImage('lie', layers.slice(0, 1), [{ bytes: layers[0], type: '+zstd' }]);
    assertApiFault(await ask('base', ['lie']), 400, /layer 1 of 1 of .* is not a zstd file/);
    putImage('cut', layers.slice(0, 1), [
      { bytes: zstdCompressSync(one).subarray(0, -50), type: '+zstd' },
    ]);
    assertApiFault(await ask('base', ['cut']), 400, /layer 1 of 1 of /);
    const bomb = gzipSync(tarOf([{ name: 'bomb', content: Buffer.alloc(300_000_000) }]));
    putImage('bomb', [bomb], [{ bytes: zstdCompressSync(gunzipSync(bomb)), type: '+zstd' }]);
    assertApiFault(await ask('base', ['bomb']), 413, /made to fill disks/);
  });
});
