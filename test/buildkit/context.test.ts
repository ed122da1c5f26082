/** Build contexts on a real builder. */
import assert from 'node:assert/strict';
import { chmod, mkdir, symlink, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { directoryTree, type FileTree, memoryTree } from '../../src/buildkit/index.ts';
import { makeTempDir } from '../world/temp-dir.ts';
import { type BuildWorld, failureOf, startBuildWorld } from './build-world.ts';

// Names that are special to a shell, to a pattern, or on the wire.
const oddNames = [
  'with space',
  ' leading and trailing ',
  'a, b',
  'ends, ',
  'ünïcode-ß',
  'emoji-🙂',
  'plus+percent%20',
  'quote"\'s',
  '-dash',
  'back\\slash',
  'new\nline',
  'deep/er/than, this/file',
];

suite('context', { concurrency: 2 }, () => {
  let world: BuildWorld;
  before(async () => {
    world = await startBuildWorld();
  });
  after(() => world?.close());

  /** Returns the files that `COPY <source> /ctx/` copies, with their modes, as a container sees them. */
  async function listing(context: FileTree, copy = 'COPY . /ctx/'): Promise<string[]> {
    let text = '';
    await world.build(
      {
        dockerfile: `FROM ${world.base}\n${copy}\nRUN cd /ctx && find . -mindepth 1 -print0 | sort -z | xargs -0 -n1 stat -c '%n %f %s' | base64 -w0 && echo\n`,
        context,
        noCache: true,
      },
      {
        onProgress: ({ logs }) => {
          for (const log of logs) text += log.text;
        },
      },
    );
    return Buffer.from(text, 'base64').toString().trimEnd().split('\n./');
  }

  async function onDisk(
    files: Readonly<Record<string, string>>,
    use: (tree: FileTree, join: (name: string) => string) => Promise<void>,
  ): Promise<void> {
    await using directory = await makeTempDir('context');
    for (const [name, data] of Object.entries(files)) {
      await mkdir(dirname(directory.join(name)), { recursive: true });
      await writeFile(directory.join(name), data);
    }
    await use(directoryTree(directory.path), directory.join);
  }

  test('unusual names arrive unchanged, from memory and from disk', async () => {
    const files = Object.fromEntries(oddNames.map((name, index) => [name, 'x'.repeat(index)]));
    const fromMemory = await listing(memoryTree(files));
    assert.equal(fromMemory.length, oddNames.length + 3);
    for (const [index, name] of oddNames.entries()) {
      const line = `${name} 81a4 ${index}`;
      assert.ok(fromMemory.map(found => found.replace(/^\.\//, '')).includes(line), line);
    }
    await onDisk(files, async tree => assert.deepEqual(await listing(tree), fromMemory));
  });

  test('unusual names can be copied one by one', async () => {
    const sources = [
      'a, b',
      'ends, ',
      'with space',
      ' leading and trailing ',
      'emoji-🙂',
      'ünïcode-ß',
    ];
    const files = Object.fromEntries([...sources, 'left out'].map(name => [name, 'x']));
    const copy = `COPY ${JSON.stringify([...sources, '/ctx/'])}`;
    const found = await listing(memoryTree(files), copy);
    assert.equal(found.length, sources.length);
  });

  test('a .dockerignore is honoured, with its exceptions', async () => {
    const files = {
      '.dockerignore':
        '# what is not needed\n**/*.log\nsecret\n/build/\n!build/keep/**\n!important.log\na, b\n',
      'a.log': '',
      'important.log': '',
      'src/b.log': '',
      'src/main.c': '',
      secret: 'x',
      'sub/secret': 'x',
      'build/out/x': '',
      'build/keep/y': '',
      'a, b': '',
      a: '',
      b: '',
    };
    const wanted = [
      ...['.dockerignore', 'a', 'b', 'build', 'build/keep', 'build/keep/y', 'important.log'],
      ...['src', 'src/main.c', 'sub', 'sub/secret'],
    ];
    const names = (lines: string[]) =>
      lines.map(line => line.replace(/^\.\//, '').replace(/ \S+ \d+$/, ''));
    assert.deepEqual(names(await listing(memoryTree(files))), wanted);
    await onDisk(files, async tree => assert.deepEqual(names(await listing(tree)), wanted));
  });

  test('a .dockerignore of 3000 lines, and a COPY of 300 files', async () => {
    const lines = Array.from({ length: 3000 }, (_, index) => `ignored/directory/number-${index}/`);
    const numbered = Array.from({ length: 300 }, (_, index) => `file-${index}`);
    const files = {
      '.dockerignore': lines.join('\n'),
      'ignored/directory/number-2999/x': 'x',
      ...Object.fromEntries(numbered.map(name => [name, name])),
    };
    const copied = await listing(memoryTree(files), `COPY ${numbered.join(' ')} /ctx/`);
    assert.equal(copied.length, numbered.length);
    const all = await listing(memoryTree(files));
    assert.ok(!all.some(line => line.includes('number-2999')));
  });

  test('modes, symlinks and empty directories', async () => {
    const fromMemory = await listing(
      memoryTree({
        tool: { data: '#!', mode: 0o4755 },
        private: { data: '', mode: 0o600 },
        link: { symlink: 'tool' },
        empty: { directory: true, mode: 0o1777 },
      }),
    );
    assert.deepEqual(
      // Each file system has a size of its own for directories.
      fromMemory.map(line => line.replace(/^\.\//, '').replace(/^(empty .*) \d+$/, '$1')),
      ['empty 43ff', 'link a1ff 4', 'private 8180 0', 'tool 89ed 2'],
    );
    await onDisk({ tool: '#!', private: '' }, async (tree, join) => {
      await chmod(join('tool'), 0o4755);
      await chmod(join('private'), 0o600);
      await symlink('tool', join('link'));
      await mkdir(join('empty'));
      await chmod(join('empty'), 0o1777);
      assert.deepEqual(await listing(tree), fromMemory);
    });
  });

  test('a COPY through a symlink includes the target of the link', async () => {
    const context = memoryTree({
      'real/data': 'x',
      'real/other': 'y',
      way: { symlink: 'real' },
      unrelated: 'z',
    });
    const found = await listing(context, 'COPY way/data /ctx/');
    assert.deepEqual(found, ['./data 81a4 1']);
  });

  test('an empty context, and no context', async () => {
    await world.build({ dockerfile: 'FROM scratch\nCOPY . /\n' });
    await world.build({ dockerfile: 'FROM scratch\nCOPY . /\n', context: memoryTree({}) });
    const context = directoryTree('/nowhere/at/all');
    const error = await failureOf(world.build({ dockerfile: 'FROM scratch\nCOPY . /\n', context }));
    assert.equal(error.kind, 'session');
    assert.match(error.message, /ENOENT.*\/nowhere\/at\/all/);
  });

  test('many files with much content', async () => {
    const files: Record<string, string | Uint8Array> = { big: Buffer.alloc(20_000_000, 'abc') };
    for (let index = 0; index < 2000; index += 1) {
      files[`d${index % 37}/e${index % 11}/f${index}`] = `content ${index}`;
    }
    const found = await listing(memoryTree(files));
    assert.equal(found.filter(line => / 81a4 /.test(line)).length, 2001);
    assert.ok(found.some(line => line.endsWith('big 81a4 20000000')));
  });
});
