/** Uploaded build contexts: how they are cut, listed, read and hashed. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { chmod, mkdir, symlink, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { openUploadedContext } from '../../src/builds/solve/context/build-context.ts';
import { readAhead } from '../../src/builds/solve/context/tar-index.ts';
import { measureDirectory } from '../../src/cli/containers/print-name.ts';
import {
  type ContextDirectory,
  contextDirectory,
  packContext,
} from '../../src/cli/containers/source/packed-context.ts';
import { cutBlobs, grainOf } from '../../src/cli/containers/source/upload-context.ts';
import {
  type ContextEntry,
  contextTypes,
  readEntries,
  writeEntries,
} from '../../src/contexts/entry-list.ts';
import { type Digest, digestOf, mediaTypes } from '../../src/oci/index.ts';
import { openContentDirectory } from '../../src/storage/content/content-directory.ts';
import type { ContentStore } from '../../src/storage/content/content-store.ts';
import { makeTempDir, type TempDir } from '../world/temp-dir.ts';

const mebibyte = 1024 * 1024;

async function blobsOf({ path, entries }: ContextDirectory, grain: number): Promise<Buffer[]> {
  const blobs: Buffer[] = [];
  for await (const blob of cutBlobs(path, entries, grain)) blobs.push(blob);
  return blobs;
}

const list = (entries: readonly ContextEntry[]) => readEntries([writeEntries(entries)] as never);
const lines = (text: string) => readEntries([gzipSync(text)] as never);

suite('uploaded build contexts', () => {
  let temporary: TempDir;
  let content: ContentStore;

  before(async () => {
    temporary = await makeTempDir('uploaded-context');
    content = await openContentDirectory(temporary.join('content'));
  });
  after(() => temporary.remove());

  const keep = async (bytes: Buffer) => {
    const digest = digestOf(bytes);
    await content.write(digest, bytes);
    return { digest, size: bytes.length };
  };
  const directoryOf = async (files: Readonly<Record<string, string | Buffer>>) => {
    const root = temporary.join(`files-${randomBytes(4).toString('hex')}`);
    for (const [path, bytes] of Object.entries(files)) {
      await mkdir(dirname(`${root}/${path}`), { recursive: true });
      await writeFile(`${root}/${path}`, bytes);
    }
    return root;
  };
  const artifact = async (
    entries: readonly ContextEntry[],
    blobs: readonly Buffer[],
    more: object = {},
  ): Promise<Digest> => {
    const layers = await Promise.all(
      blobs.map(async blob => ({ mediaType: contextTypes.content, ...(await keep(blob)) })),
    );
    const manifest = {
      schemaVersion: 2,
      mediaType: mediaTypes.ociManifest,
      artifactType: contextTypes.artifact,
      config: { mediaType: contextTypes.list, ...(await keep(writeEntries(entries))) },
      layers,
      ...more,
    };
    return (await keep(Buffer.from(JSON.stringify(manifest)))).digest;
  };

  test('files are read from blobs, and the key is that of the packed context', async () => {
    const long = `${'long-name/'.repeat(20)}file`;
    const root = await directoryOf({
      ...{ 'a/one': 'one', 'a/two': 'two', empty: '', [long]: 'deep', run: '#!/bin/sh\n' },
      'large.bin': randomBytes(300_000),
      ünï: 'text',
    });
    await chmod(`${root}/run`, 0o755);
    await symlink('a/one', `${root}/link`);
    const directory = await contextDirectory(root, undefined);
    const blobs = await blobsOf(directory, 100_000);
    assert.ok(blobs.length > 1);
    const opened = await openUploadedContext(content, await artifact(directory.entries, blobs));
    const read = async (path: string) => {
      const parts: Uint8Array[] = [];
      for await (const part of opened.tree.read(path)) parts.push(part);
      return Buffer.concat(parts);
    };
    assert.equal((await read('a/two')).toString(), 'two');
    assert.equal((await read('empty')).toString(), '');
    assert.equal((await read(long)).toString(), 'deep');
    assert.equal((await read('large.bin')).length, 300_000);
    const listed = await opened.tree.list('');
    assert.equal(listed.find(({ name }) => name === 'link')?.target, 'a/one');
    assert.equal(listed.find(({ name }) => name === 'run')?.mode, 0o755);
    const packed = await packContext(directory);
    assert.equal((await measureDirectory(directory)).tarDigest, packed?.tarDigest);
  });

  test('small ranges are those of the whole content, and are read together', async () => {
    const bytes = randomBytes(3 * mebibyte + 77);
    let reads = 0;
    const read = readAhead(async function* (start, end) {
      reads += 1;
      const half = (start + end) >> 1;
      yield bytes.subarray(start, half);
      yield bytes.subarray(half, end + 1);
    }, bytes.length);
    for (let start = 0; start < bytes.length; start += 9_973) {
      const end = Math.min(start + 9_972, bytes.length - 1);
      const pieces: Uint8Array[] = [];
      for await (const piece of read(start, end)) pieces.push(piece);
      assert.ok(Buffer.concat(pieces).equals(bytes.subarray(start, end + 1)), `from ${start}`);
    }
    assert.equal(reads, 4);
  });

  test('a changed, added or removed file changes few blobs', async () => {
    const files = Object.fromEntries(
      Array.from({ length: 500 }, (_, index) => [`d${index % 20}/f${index}`, randomBytes(2000)]),
    );
    const digests = async (some: typeof files) => {
      const directory = await contextDirectory(await directoryOf(some), undefined);
      return (await blobsOf(directory, 16_000)).map(blob => digestOf(blob));
    };
    const before = new Set(await digests(files));
    const newIn = async (some: typeof files) =>
      (await digests(some)).filter(digest => !before.has(digest)).length;
    assert.ok(before.size > 15, `${before.size} blobs`);
    assert.equal(await newIn({ ...files, 'd7/f7': randomBytes(2000) }), 1);
    const { 'd7/f7': _, ...fewer } = files;
    assert.ok((await newIn(fewer)) <= 2);
    assert.ok((await newIn({ ...files, 'd7/new': randomBytes(2000) })) <= 2);
  });

  test('a context of any size has fewer blobs than a manifest allows', () => {
    assert.equal(grainOf(300_000_000), mebibyte);
    assert.equal(grainOf(20 * 1024 * mebibyte), 32 * mebibyte);
    for (const bytes of [1e9, 1e11, 1e13]) assert.ok(bytes / grainOf(bytes) <= 800);
  });

  test('a list is parsed as it was written', async () => {
    const entries: ContextEntry[] = [
      { path: 'd', kind: 'directory', mode: 0o755, size: 0 },
      { path: 'd/f', kind: 'file', mode: 0o644, size: 5 },
      { path: 'd/l', kind: 'symlink', mode: 0o777, size: 0, target: 'f\n"' },
      { path: 'd/twin', kind: 'link', mode: 0o644, size: 0, target: 'd/f' },
    ];
    assert.deepEqual(await list(entries), entries);
    assert.deepEqual(await list([]), []);
  });

  const malformed: readonly [text: string, message: RegExp][] = [
    ['{"path":"a"}\n', /malformed line: \{"path":"a"\}/],
    ['[]\n', /malformed line/],
    ['{"path":"a","kind":"file","mode":420,"size":-1}\n', /malformed line/],
    ['{"path":"a","kind":"device","mode":420}\n', /malformed line/],
    ['{"path":"a","kind":"directory","mode":420,"size":3}\n', /malformed line/],
    ['{"path":"a","kind":"file","mode":99999,"size":1}\n', /malformed line/],
    ['{"path":"a","kind":"link","mode":420,"size":3,"target":"b"}\n', /malformed line/],
    ['{"path":"a","kind":"link","mode":420}\n', /malformed line/],
    ['{"path":"a","kind":"directory","mode":420}', /does not end with a line break/],
    [`{"path":"${'a'.repeat(100_000)}`, /a line that is too long/],
    // Deeper than Linux allows: each part is a directory.
    [`{"path":"${'d/'.repeat(20_000)}f","kind":"file","mode":420,"size":0}\n`, /malformed line/],
    [`{"path":"l","kind":"symlink","mode":511,"target":"${'t'.repeat(4097)}"}\n`, /malformed line/],
    ['{"path":"a","kind":"directory","mode":0}\n'.repeat(200_001), /more than 200000 files/],
  ];
  for (const [text, message] of malformed) {
    test(`a malformed list is refused (${message.source}): ${text.slice(0, 40).trim()}`, () =>
      assert.rejects(lines(text), message));
  }

  test('a list that is not gzip, or that unpacks to too much, is refused', async () => {
    await assert.rejects(readEntries([Buffer.from('text')] as never), /is not a gzip file/);
    const bomb = gzipSync(Buffer.alloc(300 * mebibyte, '\n'), { level: 1 });
    await assert.rejects(readEntries([bomb] as never), /malformed line|longer than/);
  });

  test('an artifact that is not a complete and valid context is refused', async () => {
    const file: ContextEntry = { path: 'f', kind: 'file', mode: 0o644, size: 5 };
    const refused = async (digest: Promise<Digest>, message: RegExp) =>
      assert.rejects(openUploadedContext(content, await digest), message);
    const five = Buffer.from('12345');
    await openUploadedContext(content, await artifact([file], [five]));
    await refused(artifact([file], [five, five]), /lists files of 5 bytes.*have 10 bytes/);
    await refused(artifact([{ ...file, size: 1e15 }], [five]), /have 5 bytes/);
    await refused(artifact([file], [five], { artifactType: 'x/y' }), /not an artifact of the type/);
    const strange = { mediaType: 'x/y', ...(await keep(five)) };
    await refused(artifact([file], [five], { layers: [strange] }), /a part of the type 'x\/y'/);
    const absent = { mediaType: contextTypes.content, digest: digestOf('absent'), size: 5 };
    await refused(artifact([file], [five], { layers: [absent] }), /upload it again/);
    const wrong = { mediaType: contextTypes.content, ...(await keep(five)), size: 6 };
    await refused(artifact([file], [five], { layers: [wrong] }), /wrong size/);
    for (const path of ['../f', '/f', 'a/../../f', 'a\0b']) {
      await refused(
        artifact([{ ...file, path }], [five]),
        /contains a path (that leads out|with a NUL)/,
      );
    }
    const twin: ContextEntry = { path: 'a', kind: 'link', mode: 0o644, size: 0, target: 'f' };
    await openUploadedContext(content, await artifact([file, twin], [five]));
    await refused(artifact([twin, file], [five]), /hard link, 'a', to 'f', which is not a file/);
    for (const target of ['../f', '/f']) {
      await refused(
        artifact([file, { ...twin, target }], [five]),
        /contains a path that leads out/,
      );
    }
  });
});
