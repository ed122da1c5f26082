/** Layers of distributions in another form: all that they have stays, judged by the library of stargz-snapshotter and by tar. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { test } from 'node:test';
import { gunzipSync, gzipSync, zstdCompressSync } from 'node:zlib';
import { paxRecord } from '../../../src/archives/tar-entry.ts';
import { TarReader } from '../../../src/archives/tar-reader.ts';
import {
  gnuHeader,
  tarEnd,
  tarPadding,
  type WrittenEntry,
} from '../../../src/archives/tar-writer.ts';
import { DistributionEntries } from '../../../src/conda/layers/forms/distribution-entries.ts';
import { EstargzWriter } from '../../../src/conda/layers/forms/estargz-writer.ts';
import { reformBase } from '../../../src/conda/layers/forms/reform-base.ts';
import type { TocLimits } from '../../../src/conda/layers/forms/toc-text.ts';
import type { BaseOrder } from '../../../src/conda/layers/making/layer-threads.ts';
import { digestOf } from '../../../src/oci/digest.ts';
import { type LazyNode, verifyEstargz } from '../../world/estargz.ts';
import { makeTempDir } from '../../world/temp-dir.ts';

const mebibyte = 2 ** 20;
const capability = Buffer.from('0100000200200000000000000000000000000000', 'hex');
const formFiles = ['.no.prefetch.landmark', 'stargz.index.json'];

/** Returns a PAX header with records, for the entry that follows. */
function pax(...records: readonly (readonly [string, string])[]): Buffer {
  const body = Buffer.concat(records.map(([name, value]) => paxRecord(name, value, 'latin1')));
  const block = gnuHeader({ path: 'PaxHeaders/x', kind: 'file', mode: 0o644, size: body.length });
  block[156] = 'x'.charCodeAt(0);
  return Buffer.concat([summed(block), body, tarPadding(body.length)]);
}

/** Writes the checksum of a changed header. */
function summed(block: Buffer): Buffer {
  block.fill(0x20, 148, 156);
  const sum = block.reduce((all, byte) => all + byte, 0);
  block.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1');
  return block;
}

interface Made extends Partial<WrittenEntry> {
  readonly path: string;
  readonly content?: Buffer;
  readonly names?: readonly [user: string, group: string];
}

function made({ content = Buffer.alloc(0), names, ...entry }: Made): Buffer {
  const kind = entry.kind ?? 'file';
  const header = gnuHeader({
    mode: 0o644,
    mtime: 1_700_000_000,
    ...entry,
    kind,
    size: content.length,
  });
  if (names) {
    const block = header.subarray(-512);
    block.write(names[0], 265, 'latin1');
    block.write(names[1], 297, 'latin1');
    summed(block);
  }
  return Buffer.concat([header, content, tarPadding(content.length)]);
}

// The same on every machine.
const whole = createHash('shake256', { outputLength: 3 * mebibyte + 5 }).digest();
const distribution = Buffer.concat([
  made({ path: './', kind: 'directory', mode: 0o755 }),
  made({ path: './usr/', kind: 'directory', mode: 0o755, names: ['root', 'root'] }),
  made({ path: './usr/bin/', kind: 'directory', mode: 0o755 }),
  pax(
    ['SCHILY.xattr.security.capability', capability.toString('latin1')],
    ['SCHILY.xattr.user.empty', ''],
    ['SCHILY.xattr.user.of=all\n', 'a=b\nc\xff'],
    ['mtime', '1700000000.25'],
  ),
  made({ path: './usr/bin/ping', mode: 0o755, content: Buffer.from('ping') }),
  made({
    path: './usr/bin/su',
    mode: 0o4755,
    content: Buffer.from('su'),
    owner: { uid: 7, gid: 42 },
  }),
  made({ path: './usr/bin/passwd', kind: 'link', mode: 0o4755, link: './usr/bin/su' }),
  made({ path: './usr/bin/sh', kind: 'symlink', mode: 0o777, link: '/bin/dash' }),
  made({
    path: './var/',
    kind: 'directory',
    mode: 0o3775,
    owner: { uid: 0, gid: 50 },
    names: ['', 'staff'],
  }),
  made({
    path: './var/mail',
    content: whole,
    owner: { uid: 3_000_000, gid: 8 },
    names: ['mail', 'mail'],
  }),
  pax(
    ['uid', '4294967294'],
    ['uname', 'n\xc3\xb6body'],
    ['path', `./var/${'\xc3\xa9'.repeat(90)}`],
  ),
  made({ path: './var/x' }),
  made({ path: `./var/${'long/'.repeat(30)}name`, content: Buffer.from('long') }),
  made({ path: './dev/', kind: 'directory', mode: 0o755 }),
  made({
    path: './dev/null',
    kind: 'character-device',
    mode: 0o666,
    device: { major: 1, minor: 3 },
  }),
  made({ path: './dev/loop', kind: 'block-device', mode: 0o660, device: { major: 7, minor: 300 } }),
  made({ path: './run/pipe', kind: 'fifo', mode: 0o600 }),
  made({ path: './usr/bin/.wh.old' }),
  made({ path: './usr/', kind: 'directory', mode: 0o755, names: ['root', 'root'] }),
  made({ path: './var/', kind: 'directory', mode: 0o700, mtime: 5 }),
  tarEnd,
]);

/** Compresses a layer again, in a file of its own. */
async function reformed(
  packed: Buffer,
  { tar = distribution, ...more }: { readonly tar?: Buffer } & Partial<BaseOrder> = {},
) {
  await using directory = await makeTempDir('base-layer');
  const path = directory.join('layer');
  await writeFile(path, packed);
  const pieces: Buffer[] = [];
  const result = await reformBase(
    {
      ...{ kind: 'base', layer: { path, size: packed.length }, mode: 'estargz', level: 5 },
      ...{ isPlain: false, diffId: digestOf(tar), maxBytes: 2 ** 30, ...more },
    },
    piece => pieces.push(Buffer.from(piece)),
  );
  return { ...result, bytes: Buffer.concat(pieces) };
}

const tocOf = ({ about }: Awaited<ReturnType<typeof reformed>>): string =>
  JSON.parse(about?.facts ?? '{}').tocDigest;

/** Returns the blocks before the content of each entry, and the content, without the files of the form. */
function partsOf(tar: Buffer): (readonly [string, Buffer, Buffer])[] {
  const parts: [string, Buffer, Buffer][] = [];
  const reader = new TarReader(
    {
      entry({ path }, { whole }) {
        parts.push([path, whole?.blocks as Buffer, Buffer.alloc(0)]);
        return true;
      },
      content(bytes) {
        const last = parts.at(-1) as [string, Buffer, Buffer];
        last[2] = Buffer.concat([last[2], bytes]);
      },
    },
    { withBlocks: true },
  );
  reader.write(tar);
  reader.end();
  return parts.filter(([path]) => !formFiles.includes(path));
}

const listed = (tar: Buffer): string[] =>
  execFileSync('tar', ['-tv', '--full-time', '--numeric-owner'], { input: tar, encoding: 'utf8' })
    .split('\n')
    .filter(line => line !== '' && !formFiles.some(name => line.endsWith(name)));

test('an eStargz layer of a distribution has all headers of it byte by byte, and a table that says what they say', async () => {
  const layer = await reformed(gzipSync(distribution));
  const tar = gunzipSync(layer.bytes);
  assert.equal(digestOf(tar), layer.tarDigest);
  assert.equal(tar.length, layer.tarBytes);
  // Between the landmark and the table.
  const { length: end } = tarEnd;
  const passed = tar.subarray(1024, 1024 + distribution.length - end);
  assert.ok(passed.equals(distribution.subarray(0, -end)));
  assert.deepEqual(listed(tar), listed(distribution));
  const nodes = new Map(
    (await verifyEstargz(layer.bytes, tocOf(layer))).map(node => [node.path, node]),
  );
  const has = (path: string, expected: Partial<LazyNode>) => {
    const node = nodes.get(path);
    assert.ok(node, path);
    assert.deepEqual({ ...node, ...expected }, node, path);
  };
  const xattrs = {
    'security.capability': capability.toString('base64'),
    'user.empty': '',
    // The name of a record ends at its first equals sign.
    'user.of': Buffer.from('all\n=a=b\nc\xff', 'latin1').toString('base64'),
  };
  has('usr/bin/ping', { type: 'reg', mode: 0o755, time: 1_700_000_000, xattrs });
  has('usr/bin/su', { mode: 0o4755, uid: 7, gid: 42, links: 2 });
  has('usr/bin/passwd', { type: 'reg', sha256: nodes.get('usr/bin/su')?.sha256 as string });
  has('usr/bin/sh', { type: 'symlink', link: '/bin/dash' });
  has('usr', { type: 'dir', user: 'root', group: 'root' });
  // The last one of two that differ.
  has('var', { type: 'dir', mode: 0o700, time: 5 });
  has('var/mail', { uid: 3_000_000, gid: 8, user: 'mail', group: 'mail', chunks: 4 });
  has(`var/${'é'.repeat(90)}`, { uid: 4_294_967_294, user: 'nöbody' });
  has(`var/${'long/'.repeat(30)}name`, { size: 4 });
  has('dev/null', { type: 'char', mode: 0o666, major: 1, minor: 3 });
  has('dev/loop', { type: 'block', major: 7, minor: 300 });
  has('run/pipe', { type: 'fifo' });
  has('usr/bin/.wh.old', { type: 'reg', size: 0 });

  const again = await reformed(layer.bytes, { tar });
  assert.deepEqual(partsOf(gunzipSync(again.bytes)), partsOf(distribution));
});

const golden = {
  gzip: 'sha256:feecff3f8f94bfaf96377b2a6e95f6a8668376380d7bd9f6394b49ca0cad59fe',
  estargz: 'sha256:bd599d92f9057cda6a0619659e7635debd78d3b399a9384edc13875a917029da',
};

test('the same bytes come of any packing, and gzip keeps the tar file as it is', async () => {
  const packed = [
    { bytes: gzipSync(distribution), isPlain: false },
    {
      bytes: Buffer.concat([
        gzipSync(distribution.subarray(0, 512)),
        gzipSync(distribution.subarray(512)),
      ]),
      isPlain: false,
    },
    { bytes: zstdCompressSync(distribution), isPlain: false },
    { bytes: distribution, isPlain: true },
    { bytes: distribution, isPlain: false },
  ];
  for (const mode of ['gzip', 'estargz'] as const) {
    const layers = [];
    for (const { bytes, isPlain } of packed) layers.push(await reformed(bytes, { isPlain, mode }));
    const digests = new Set(layers.map(({ bytes }) => digestOf(bytes)));
    // A change means other digests for all images: increase `baseVersion`.
    assert.deepEqual([...digests], [golden[mode]]);
    if (mode === 'gzip') {
      for (const { bytes, tarDigest } of layers) {
        assert.ok(gunzipSync(bytes).equals(distribution));
        assert.equal(tarDigest, digestOf(distribution));
      }
    }
  }
  const levels = await Promise.all(
    [0, 5, 9].map(level => reformed(packed[0]?.bytes as Buffer, { mode: 'gzip', level })),
  );
  assert.equal(new Set(levels.map(({ bytes }) => bytes.length)).size, 3);
});

test('an empty layer has only the table', async () => {
  const empty = Buffer.alloc(1024);
  const layer = await reformed(gzipSync(empty), { tar: empty });
  assert.deepEqual(await verifyEstargz(layer.bytes, tocOf(layer)), []);
});

const deep = `${'d/'.repeat(2045)}f`;
const harmful: readonly (readonly [name: string, tar: readonly Buffer[], message: RegExp])[] = [
  ['a path with ..', [made({ path: 'a/../../b' })], /^has a path with '\.\.', "a/],
  [
    'a hard link with ..',
    [made({ path: 'a', kind: 'link', link: '../a' })],
    /^has a path with '\.\./,
  ],
  ['a file twice', [made({ path: 'a' }), made({ path: './a' })], /^has "\.\/a" twice$/],
  [
    'a directory that becomes a file',
    [made({ path: 'a/', kind: 'directory' }), made({ path: 'a' })],
    /^has "a" twice$/,
  ],
  ['a file with files below it', [made({ path: 'a' }), made({ path: 'a/b' })], /below what is not/],
  [
    'a file that has files already',
    [made({ path: 'a/b' }), made({ path: 'a' })],
    /^has "a" twice$/,
  ],
  [
    'files below a link',
    [made({ path: 'a', kind: 'symlink', link: '/etc' }), made({ path: 'a/passwd' })],
    /below what is not a directory/,
  ],
  ['a hard link to nothing', [made({ path: 'a', kind: 'link', link: 'b' })], /not before it/],
  [
    'a sparse file',
    [
      pax(['GNU.sparse.major', '1'], ['GNU.sparse.minor', '0']),
      made({ path: 'a', content: Buffer.from('0\n') }),
    ],
    /sparse/,
  ],
  ['a name that is not text', [made({ path: 'a\xff' })], /^has a name that is not UTF-8/],
  ['a path that no system has', [made({ path: `${'d/'.repeat(2100)}f` })], /more than 4096 bytes/],
  ['a PAX header of 1 GiB', [summed(longHeader())], /longer than 1 MiB/],
  [
    'PAX headers without end',
    Array.from({ length: 5 }, () => pax(['comment', 'x'.repeat(mebibyte - 100)])),
    /^has more than 4 MiB of tar headers/,
  ],
  [
    'attributes that fill the table',
    [pax(['SCHILY.xattr.user.a', 'x'.repeat(900_000)]), made({ path: 'a' })],
    /too long names or attributes/,
  ],
  [
    'a time that nobody can write',
    [pax(['mtime', '1e15']), made({ path: 'a' })],
    /impossible time/,
  ],
  [
    'an entry that is cut',
    [made({ path: 'a', content: Buffer.alloc(9) }).subarray(0, 600)],
    /ends in the middle/,
  ],
  ['no tar file', [Buffer.from('x'.repeat(600))], /is not a tar archive/],
];

function longHeader(): Buffer {
  const block = gnuHeader({ path: 'x', kind: 'file', mode: 0, size: 2 ** 30 });
  block[156] = 'x'.charCodeAt(0);
  return block;
}

for (const [name, parts, message] of harmful) {
  test(`refused in an eStargz layer: ${name}`, async () => {
    const tar = Buffer.concat(parts);
    await assert.rejects(reformed(gzipSync(tar), { tar }), { kind: 'bad-request', message });
    // Its bytes pass where only the compression changes.
    assert.ok((await reformed(gzipSync(tar), { tar, mode: 'gzip' })).bytes.length > 0);
  });
}

test('what is not the layer that was verified is refused: cut, damaged, of another size', async () => {
  const packed = gzipSync(distribution);
  const damaged = Buffer.from(packed);
  damaged.fill(0xff, 5000, 6000);
  for (const mode of ['gzip', 'estargz'] as const) {
    for (const bytes of [packed.subarray(0, packed.length - 100), damaged]) {
      await assert.rejects(reformed(bytes, { mode }), {
        kind: 'bad-request',
        message: /damaged/,
      });
    }
    await assert.rejects(reformed(packed, { mode, maxBytes: 100_000 }), {
      message: 'unpacks to more than 100000 bytes',
    });
    const other = gzipSync(Buffer.concat([made({ path: 'other' }), tarEnd]));
    await assert.rejects(reformed(other, { mode }), { message: /^unpacks to sha256:/ });
  }
});

test('entries and their directories are bounded, and each directory is looked at once', () => {
  const limit = 20_000;
  const read = (parts: Iterable<Buffer>) => {
    const writer = { begin() {}, content() {} };
    const reader = new TarReader(new DistributionEntries(writer, limit), { withBlocks: true });
    for (const part of parts) reader.write(part);
  };
  const message = `has more than ${limit} files and directories`;
  const named = (path: (at: number) => string) =>
    (function* () {
      for (let at = 0; at < limit + 2; at += 1) yield made({ path: path(at) });
    })();
  assert.throws(() => read(named(at => `${at}`)), { message });
  // The same directory: the table leaves it out, but each of them takes time.
  const same = made({ path: 'a/', kind: 'directory' });
  assert.throws(() => read(Array.from({ length: limit + 2 }, () => same)), { message });
  const began = performance.now();
  assert.throws(() => read(named(at => `${at}/${deep.slice(10)}`)), { message });
  read(
    Array.from({ length: 1000 }, (_, at) =>
      made({ path: `${deep.slice(10)}/${at % 2 ? 'a' : 'b/c'}/${at}` }),
    ),
  );
  assert.ok(performance.now() - began < 10_000);
});

test('the table of contents is bounded, also where nothing compresses it', () => {
  const read = (limits: TocLimits, value: (at: number) => string) => {
    using writer = new EstargzWriter(() => {}, 1, limits);
    const reader = new TarReader(new DistributionEntries(writer), { withBlocks: true });
    for (let at = 0; at < 10; at += 1) {
      reader.write(pax(['SCHILY.xattr.user.a', value(at)]));
      reader.write(made({ path: `${at}` }));
    }
    reader.end();
    writer.end();
  };
  const random = (at: number) =>
    createHash('shake256', { outputLength: 150_000 }).update(`${at}`).digest().toString('latin1');
  const message = /^has names and attributes that fill more than/;
  const enough = { bytes: 5_000_000, packedBytes: 5_000_000 };
  read(enough, random);
  assert.throws(() => read({ ...enough, packedBytes: 1_000_000 }, random), { message });
  const same = () => 'x'.repeat(150_000);
  read({ ...enough, packedBytes: 1_000_000 }, same);
  assert.throws(() => read({ ...enough, bytes: 1_000_000 }, same), { message });
});
