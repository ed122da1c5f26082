import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { chmodSync, linkSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { type Header, pack } from 'tar-stream';
import { type FileTree, memoryTree } from '../../src/buildkit/index.ts';
import { openBuildContext } from '../../src/builds/solve/context/build-context.ts';
import { layeredTree } from '../../src/builds/solve/context/context-tree.ts';
import { TarIndex } from '../../src/builds/solve/context/tar-index.ts';
import { Fault } from '../../src/foundation/fault.ts';
import { type Digest, digestOf } from '../../src/oci/digest.ts';
import { openContentDirectory } from '../../src/storage/content/content-directory.ts';
import type { ContentStore } from '../../src/storage/content/content-store.ts';
import { makeTempDir, type TempDir } from '../world/temp-dir.ts';

/** Returns the entries of a tree: `d755 src`, `f644 src/a <content>`, `l777 link -> a`. */
async function listing(tree: FileTree, directory = ''): Promise<string[]> {
  const lines: string[] = [];
  for (const { name, kind, mode, size, target } of await tree.list(directory)) {
    const path = directory === '' ? name : `${directory}/${name}`;
    const start = `${kind === 'symlink' ? 'l' : kind[0]}${mode.toString(8)} ${path}`;
    if (kind === 'file') {
      const content = await bytesOf(tree, path);
      assert.equal(content.length, size, path);
      lines.push(`${start} ${content.toString('utf8', 0, 40)}`);
    } else lines.push(kind === 'symlink' ? `${start} -> ${target}` : start);
    if (kind === 'directory') lines.push(...(await listing(tree, path)));
  }
  return lines.sort();
}

async function bytesOf(tree: FileTree, path: string): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  for await (const part of tree.read(path)) parts.push(part);
  return Buffer.concat(parts);
}

type Entry = readonly [header: Partial<Header> & { name: string }, content?: string];

async function tarOf(entries: readonly Entry[]): Promise<Buffer> {
  const tar = pack();
  for (const [header, content] of entries) tar.entry(header, content ?? '');
  tar.finalize();
  const parts: Buffer[] = [];
  for await (const part of tar) parts.push(part as Buffer);
  return Buffer.concat(parts);
}

suite('build context', () => {
  let directory: TempDir;
  let content: ContentStore;

  before(async () => {
    directory = await makeTempDir('build-context');
    content = await openContentDirectory(directory.join('content'));
  });
  after(() => directory.remove());

  const keep = async (bytes: Buffer): Promise<Digest> => {
    const digest = digestOf(bytes);
    await content.write(digest, bytes);
    return digest;
  };
  const open = async (bytes: Buffer, signal = new AbortController().signal) =>
    openBuildContext(content, await keep(bytes), signal);
  const temporary = () => readdirSync(directory.join('content/tmp'));

  test('an archive of GNU tar is served file by file', async () => {
    const root = directory.join('files');
    const long = `${'long-name/'.repeat(20)}file`;
    mkdirSync(join(root, 'src', 'empty'), { recursive: true });
    mkdirSync(join(root, long, '..'), { recursive: true });
    writeFileSync(join(root, long), 'deep');
    writeFileSync(join(root, 'src', 'big'), Buffer.alloc(3_000_000, 'big '));
    writeFileSync(join(root, 'src', 'é'), 'accent');
    writeFileSync(join(root, 'none'), '');
    linkSync(join(root, 'src', 'é'), join(root, 'zz-hard'));
    symlinkSync('../../etc/passwd', join(root, 'src', 'out'));
    writeFileSync(join(root, 'run'), '#!/bin/sh\n');
    chmodSync(join(root, 'run'), 0o4755);
    for (const format of ['gnu', 'pax', 'ustar']) {
      const tar = execFileSync(
        'tar',
        ['-C', root, '--sort=name', `--format=${format}`, '-cz', '.'],
        { maxBuffer: 1e8, env: { ...process.env, LC_ALL: 'C' } },
      );
      await using context = await open(tar);
      const found = await listing(context.tree);
      for (const line of [
        `f644 ${long} deep`,
        `f644 src/big ${'big '.repeat(10)}`,
        'f644 src/é accent',
        'f644 zz-hard accent',
        'f644 none ',
        'f4755 run #!/bin/sh\n',
        'd755 src/empty',
        'l777 src/out -> ../../etc/passwd',
      ]) {
        assert.ok(found.includes(line), `${format}: ${line} in\n${found.join('\n')}`);
      }
      assert.equal(found.length, 20 + 9, found.join('\n'));
      assert.equal((await bytesOf(context.tree, 'src/big')).length, 3_000_000);
      assert.equal(temporary().length, 1);
    }
    assert.deepEqual(temporary(), [], 'nothing is left of it');
  });

  test('directories that the archive does not list exist; the last of two equal paths counts', async () => {
    const tar = await tarOf([
      [{ name: 'a/b/c' }, 'first'],
      [{ name: './a//b/c' }, 'second'],
      [{ name: 'a/b', type: 'directory', mode: 0o700 }],
    ]);
    await using context = await open(gzipSync(tar));
    assert.deepEqual(await listing(context.tree), ['d700 a/b', 'd755 a', 'f644 a/b/c second']);
    assert.deepEqual(await context.tree.list('nowhere'), []);
    assert.throws(() => context.tree.read('a'), /'a' is not a file/);
  });

  const link = (name: string, linkname: string, type: Header['type'] = 'symlink') =>
    [{ name, type, linkname }] as const;
  const refused: readonly [what: string, entries: readonly Entry[], message: RegExp][] = [
    [
      'a path that is too long',
      [[{ name: `${'a/'.repeat(2100)}b` }]],
      /path longer than 4096 bytes/,
    ],
    [
      'a link to a path that is too long',
      [link('a', 'b/'.repeat(2100))],
      /symbolic link, 'a', to more than 4096 bytes/,
    ],
    ['a path that leads out', [[{ name: 'a/../../b' }]], /leads out of it, 'a\/\.\.\/\.\.\/b'/],
    ['a path from the root', [[{ name: '/etc/passwd' }]], /leads out of it, '\/etc\/passwd'/],
    [
      'a character device',
      [[{ name: 'tty', type: 'character-device' }]],
      /other than files.*'tty'/,
    ],
    ['a block device', [[{ name: 'sda', type: 'block-device' }]], /other than files.*'sda'/],
    ['a pipe', [[{ name: 'p', type: 'fifo' }]], /other than files.*'p'/],
    [
      'a file behind a link',
      [link('a', '/etc'), [{ name: 'a/passwd' }, 'x']],
      /path through 'a', which is not a directory/,
    ],
    [
      'a hard link to nothing',
      [link('a', 'b', 'link')],
      /'a', to 'b', which is not a file before it/,
    ],
    ['a hard link that leads out', [link('a', '../b', 'link')], /leads out of it, '\.\.\/b'/],
    [
      'a hard link to a directory',
      [[{ name: 'd', type: 'directory' }], link('a', 'd', 'link')],
      /to 'd', which is not a file/,
    ],
    [
      'a file in place of a directory',
      [[{ name: 'a/b' }], [{ name: 'a' }, 'x']],
      /contains 'a' as a directory and as something else/,
    ],
    [
      'a file with holes',
      [
        [
          {
            name: 'a',
            pax: { 'GNU.sparse.map': '0,1', 'GNU.sparse.size': '9' },
          },
          'x',
        ],
      ],
      /has a sparse file, "a", which is not supported/,
    ],
    [
      'a name of 2 MB',
      [[{ name: 'a', pax: { comment: 'x'.repeat(2_000_000) } }, 'x']],
      /has a tar header longer than 1 MiB/,
    ],
  ];

  for (const [what, entries, message] of refused) {
    test(`refused with a sentence: ${what}`, async () => {
      const bytes = gzipSync(await tarOf([[{ name: 'first' }, 'x'.repeat(100_000)], ...entries]));
      await assert.rejects(open(bytes), (error: unknown) => {
        assert.ok(error instanceof Fault, String(error));
        assert.equal(error.kind, 'bad-request');
        assert.match(error.message, /^The build context /);
        assert.match(error.message, message);
        return true;
      });
      assert.deepEqual(temporary(), []);
    });
  }

  test('a file from any time has a time that a builder takes', async () => {
    const mtime = '1e300';
    await using context = await open(gzipSync(await tarOf([[{ name: 'a', pax: { mtime } }, 'x']])));
    const [file] = await context.tree.list('');
    assert.ok(Number.isSafeInteger((file?.mtimeMs ?? Number.NaN) * 1000));
  });

  test('a truncated or damaged archive is reported', async () => {
    const tar = await tarOf([
      [{ name: 'a' }, 'x'.repeat(5000)],
      [{ name: 'b' }, 'y'],
    ]);
    for (const bytes of [
      tar.subarray(0, 3000),
      Buffer.concat([tar.subarray(0, 5632), Buffer.alloc(512, 'junk')]),
    ]) {
      await assert.rejects(
        open(gzipSync(bytes)),
        /The build context (?:is not a tar archive|ends in the middle of a tar entry)/,
      );
    }
    assert.deepEqual(temporary(), []);
  });

  test('a missing context, and a cancelled build', async () => {
    const { signal } = new AbortController();
    const gone = openBuildContext(content, digestOf('gone'), signal);
    await assert.rejects(gone, /is no longer available: request the build again/);
    const bytes = gzipSync(await tarOf([[{ name: 'a' }, 'x'.repeat(1_000_000)]]));
    await assert.rejects(open(bytes, AbortSignal.abort(new Error('stopped'))), /stopped/);
    assert.deepEqual(temporary(), []);
  });

  test('many files or long paths do not fill the memory', () => {
    const index = (maxEntries: number, maxPathText: number) =>
      new TarIndex({ maxEntries, maxPathText });
    const common = { kind: 'file', mode: 0o644, size: 0, contentStart: 0 } as const;
    const file = (path: string) => ({ ...common, path });
    const few = index(3, 1000);
    few.add(file('a/b'));
    few.add(file('a/b'));
    few.add(file('c'));
    assert.throws(() => few.add(file('d')), /more than 3 files and directories/);
    const deep = index(1000, 1000);
    assert.throws(() => deep.add(file('a/'.repeat(500))), /too many long paths/);
  });

  test('of two trees, the upper one wins', async () => {
    const upper = memoryTree({ a: 'upper', 'd/x': 'upper', f: 'upper' });
    const lower = memoryTree({
      a: 'lower',
      b: 'lower',
      'd/x': 'lower',
      'd/y': 'lower',
      'f/g': 'x',
    });
    const both = layeredTree(upper, lower);
    assert.deepEqual(await listing(both), [
      'd755 d',
      'f644 a upper',
      'f644 b lower',
      'f644 d/x upper',
      'f644 d/y lower',
      'f644 f upper',
    ]);
  });
});
