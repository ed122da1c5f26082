import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { makeTempDir } from '../world/temp-dir.ts';
import { requireCommand } from '../world/tools.ts';
import { convert, noLimits } from './conversion.ts';
import { type TarPart, tarLayer } from './tar-file.ts';

const file = (content: string | Buffer, mode = '0644') =>
  `file ${mode} ${Buffer.byteLength(content)} ${createHash('sha256').update(content).digest('hex').slice(0, 16)}`;

test('labels and variables of a build are in the image', async () => {
  await using conversion = await convert([
    tarLayer([{ name: '.singularity.d/env/90-environment.sh', content: '#!/bin/sh\nexport A=1' }]),
    tarLayer([{ name: './.build.labels', content: '# comment\n\nVersion 1.0 beta\nEmpty\n' }]),
  ]);
  const { metadata } = await conversion.describe();
  const { attributes } = (metadata as unknown as Metadata).data;
  assert.equal(
    attributes.environment['/.singularity.d/env/90-environment.sh'],
    '#!/bin/sh\nexport A=1',
  );
  assert.equal(attributes.labels.Version, '1.0 beta');
  assert.equal(attributes.labels.Empty, '');
  const tree = await conversion.tree();
  assert.equal(tree['.build.labels'], undefined);
  assert.equal(
    tree['.singularity.d/env/90-environment.sh'],
    file('#!/bin/sh\nexport A=1\n', '0755'),
  );
});

/** In the format that `tar --sparse --format=pax` writes: the map of the data comes before it. */
function sparse(
  name: string,
  size: number,
  parts: readonly (readonly [number, string])[],
): TarPart {
  const map = parts.flatMap(([offset, text]) => [offset, text.length]);
  const head = Buffer.alloc(512);
  head.write([parts.length, ...map, ''].join('\n'));
  return {
    name: `./GNUSparseFile.0/${name}`,
    content: Buffer.concat([head, ...parts.map(([, text]) => Buffer.from(text))]),
    pax: {
      'GNU.sparse.major': '1',
      'GNU.sparse.minor': '0',
      'GNU.sparse.name': name,
      'GNU.sparse.realsize': String(size),
    },
  };
}

test('sparse files are complete', async () => {
  const content = Buffer.alloc(3_000_000);
  content.write('begin', 0);
  content.write('middle', 1_500_000);
  const hole = { name: 'x', content: 'abc' };
  await using conversion = await convert([
    tarLayer([
      sparse('both', content.length, [
        [0, 'begin'],
        [1_500_000, 'middle'],
      ]),
      sparse('nothing', 700, []),
      { name: 'after', content: 'after' },
      {
        ...hole,
        pax: { 'GNU.sparse.map': '1,2,9,1', 'GNU.sparse.size': '10', 'GNU.sparse.name': 'old' },
      },
      { name: 'older', content: 'abc', pax: olderSparse },
    ]),
  ]);
  const tree = await conversion.tree();
  assert.equal(tree.both, file(content.toString('latin1')));
  assert.equal(tree.nothing, file('\0'.repeat(700)));
  assert.equal(tree.after, file('after'));
  assert.equal(tree.old, file('\0ab\0\0\0\0\0\0c'));
  assert.equal(tree.older, file('\0\0abc\0'));
});

const olderSparse = {
  'GNU.sparse.size': '6',
  'GNU.sparse.offset': '2',
  'GNU.sparse.numbytes': '3',
};

test('user attributes are kept, other attributes are not', async () => {
  const user = 'SCHILY.xattr.user';
  await using conversion = await convert([
    tarLayer([
      {
        name: 'file',
        content: 'x',
        pax: { [`${user}.note`]: 'a=\0ü\nb', 'SCHILY.xattr.trusted.x': 'y' },
      },
      { name: 'hard', type: 'link', link: 'file' },
      { name: 'directory', type: 'directory', pax: { [`${user}.kind`]: 'of directory' } },
      { name: `${'long/'.repeat(60)}name`, content: 'y', pax: { [`${user}.note`]: 'far away' } },
      { name: 'plain', content: 'z' },
    ]),
  ]);
  await using directory = await makeTempDir('attributes');
  const root = directory.join('root');
  const { squashfs } = await conversion.describe();
  const args = ['-no-progress', '-quiet', '-offset', `${squashfs?.offset}`, '-dest', root];
  await promisify(execFile)(requireCommand('unsquashfs'), [...args, conversion.sif.path]);
  const script = `import os, sys
for path in sys.argv[1:]:
    print(path, {name: os.getxattr(path, name) for name in os.listxattr(path)})`;
  const paths = ['file', 'hard', 'directory', `${'long/'.repeat(60)}name`, 'plain'];
  const { stdout } = await promisify(execFile)(
    requireCommand('python3'),
    ['-c', script, ...paths],
    {
      cwd: root,
    },
  );
  assert.deepEqual(
    stdout
      .trim()
      .split('\n')
      .map(line => line.replace(/^.*? /, '')),
    [
      "{'user.note': b'a=\\x00\\xc3\\xbc\\nb'}",
      "{'user.note': b'a=\\x00\\xc3\\xbc\\nb'}",
      "{'user.kind': b'of directory'}",
      "{'user.note': b'far away'}",
      '{}',
    ],
  );
});

test('incompressible data is stored uncompressed', async () => {
  const noise = randomBytes(3_000_000);
  const layer = tarLayer([{ name: 'noise', content: noise }]);
  await using conversion = await convert([layer, tarLayer([])]);
  const { squashfs } = await conversion.describe();
  // Flags of the superblock: blocks and fragments are not compressed.
  const flags = (await readFile(conversion.sif.path)).readUInt16LE((squashfs?.offset ?? 0) + 24);
  assert.equal(flags & 0b1010, 0b1010);
  assert.equal((await conversion.tree()).noise, file(noise));
  const text = tarLayer([{ name: 'text', content: 'compressible '.repeat(40_000) }]);
  await using other = await convert([layer, text, text]);
  const start = (await other.describe()).squashfs?.offset ?? 0;
  assert.equal((await readFile(other.sif.path)).readUInt16LE(start + 24) & 0b1010, 0);
});

test('a file system is compressed by zstd on request', async () => {
  const layer = tarLayer([{ name: 'text', content: 'compressible '.repeat(4000) }]);
  await using conversion = await convert([layer], { compression: { mode: 'zstd', level: 9 } });
  const start = (await conversion.describe()).squashfs?.offset ?? 0;
  // The number of zstd in the superblock.
  assert.equal((await readFile(conversion.sif.path)).readUInt16LE(start + 20), 6);
  assert.equal((await conversion.tree()).text, file('compressible '.repeat(4000)));
});

test('without space for unpacked layers, a conversion unpacks them twice', async () => {
  const layer = tarLayer([{ name: 'text', content: 'compressible '.repeat(400_000) }]);
  await using usual = await convert([layer]);
  // A quarter is for layers that are unpacked once.
  const limits = { ...noLimits, maxScratchBytes: 2_000_000 };
  await using tight = await convert([layer], { limits });
  assert.equal(tight.sif.digest, usual.sif.digest);
  assert.deepEqual(await readdir(tight.directory.path), ['image.sif']);
});

interface Metadata {
  readonly data: { readonly attributes: Record<'environment' | 'labels', Record<string, string>> };
}
