/** The files of a tree that a builder sees. The expected choices come from BuildKit's own code. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { parsePattern } from '../../src/buildkit/files/path-pattern.ts';
import { type TreeSelection, walkTree } from '../../src/buildkit/files/tree-walk.ts';
import { type FileTree, memoryTree, type TreeEntry } from '../../src/buildkit/index.ts';
import { sortInTurns } from '../../src/foundation/pause-turn.ts';
import { boundMs, longestBlock } from '../world/longest-block.ts';
import { processorMs } from '../world/processor-time.ts';

/** Returns the selected paths of files (and of directories, with a final `/`). */
async function chosen(
  paths: readonly string[],
  selection: Partial<TreeSelection>,
  links: Readonly<Record<string, string>> = {},
): Promise<string[]> {
  const tree = memoryTree({
    ...Object.fromEntries(paths.map(path => [path, 'x'])),
    ...Object.fromEntries(Object.entries(links).map(([path, symlink]) => [path, { symlink }])),
  });
  const found: string[] = [];
  const whole = { includes: [], follows: [], excludes: [], ...selection };
  for await (const { path, entry } of walkTree(tree, whole)) {
    found.push(entry.kind === 'directory' ? `${path}/` : path);
  }
  return found;
}

suite('patterns', () => {
  const cases: [pattern: string, matching: string[], other: string[]][] = [
    ['a', ['a'], ['ab', 'b/a', 'a/b']],
    ['a/', ['a'], ['a/b']],
    ['./a/../b', ['b'], ['a', 'a/b']],
    ['*', ['a', '.a', 'ü'], ['a/b', 'a/']],
    ['?', ['a', '🙂'], ['', 'ab', '/']],
    ['*.log', ['.log', 'a.log'], ['a/b.log', 'alog']],
    ['a/*/c', ['a/b/c'], ['a/c', 'a/b/b/c']],
    ['**', ['a', 'a/b/c'], []],
    ['a/**', ['a/b', 'a/b/c'], ['a', 'ab']],
    ['**/a', ['a', 'b/a', 'b/c/a'], ['ba', 'a/b']],
    ['**a', ['a', 'ba', 'c/ba'], ['ab']],
    ['**/a*', ['a', 'b/ab'], ['ba', 'ab/b']],
    ['a/**/b', ['a/b', 'a/c/b', 'a/c/d/b'], ['ab', 'a/cb']],
    ['[a-c]x', ['ax', 'cx'], ['dx', '-x']],
    ['[^a-c]x', ['dx'], ['ax', 'x']],
    ['[\\]]', [']'], ['\\']],
    ['a\\*b', ['a*b'], ['axb', 'a\\*b']],
    ['a.b+c$', ['a.b+c$'], ['axb+c$', 'a.bbc$']],
  ];
  for (const [pattern, matching, other] of cases) {
    test(pattern, () => {
      const parsed = parsePattern(pattern);
      assert.ok(parsed);
      for (const path of matching) assert.ok(parsed.matches(path), path);
      for (const path of other) assert.ok(!parsed.matches(path), path);
    });
  }

  test('unbalanced brackets', () => {
    for (const pattern of ['[a', 'a\\', '[]', '!']) assert.throws(() => parsePattern(pattern));
  });

  test('no pattern takes long', () => {
    const parsed = parsePattern(`**/${'a*'.repeat(40)}b/**/${'*a'.repeat(30)}c`);
    const ms = processorMs(() => assert.ok(!parsed?.matches(`${'a'.repeat(250)}/`.repeat(16))));
    assert.ok(ms < 1_000, `${ms} ms`);
  });
});

suite('selection', () => {
  test('entries are sorted by bytes, parents first', async () => {
    const paths = ['b', 'a/z', 'a-b', 'a.c/d', 'A', '🙂', '\uff5e', 'ü'];
    assert.deepEqual(await chosen(paths, {}), [
      ...['A', 'a/', 'a/z', 'a-b', 'a.c/', 'a.c/d', 'b', 'ü', '\uff5e', '🙂'],
    ]);
  });

  test('an exclusion removes everything below it; an exception restores files with their directories', async () => {
    const paths = ['a/b/c', 'a/b/d', 'a/e', 'f'];
    assert.deepEqual(await chosen(paths, { excludes: ['a'] }), ['f']);
    assert.deepEqual(await chosen(paths, { excludes: ['a', '!a/b/c'] }), [
      ...['a/', 'a/b/', 'a/b/c', 'f'],
    ]);
    assert.deepEqual(await chosen(paths, { excludes: ['*', '!a/e', 'f'] }), ['a/', 'a/e']);
    assert.deepEqual(await chosen(paths, { excludes: ['!f', 'f'] }), [
      ...['a/', 'a/b/', 'a/b/c', 'a/b/d', 'a/e'],
    ]);
  });

  test('only files that COPY names are sent, without excluded files', async () => {
    const paths = ['a/b/c', 'a/d', 'e', 'eu', 'f!x'];
    assert.deepEqual(await chosen(paths, { follows: ['a/b', 'e*'] }), [
      ...['a/', 'a/b/', 'a/b/c', 'e', 'eu'],
    ]);
    assert.deepEqual(await chosen(paths, { follows: ['a'], excludes: ['**/c'] }), [
      ...['a/', 'a/b/', 'a/d'],
    ]);
    assert.deepEqual(await chosen(paths, { follows: ['nothere'] }), []);
    assert.deepEqual((await chosen(paths, { follows: ['.', 'e'] })).length, 7);
  });

  test('symlinks include their targets, and nothing else', async () => {
    const paths = ['real/x', 'real/y', 'other'];
    const links = { l1: 'real', l2: '/l1/x', 'd/up': '../../../other', loop: 'loop/a', gone: 'no' };
    assert.deepEqual(await chosen(paths, { follows: ['l1/y'] }, links), ['l1', 'real/', 'real/y']);
    assert.deepEqual(await chosen(paths, { follows: ['l2'] }, links), [
      ...['l1', 'l2', 'real/', 'real/x'],
    ]);
    assert.deepEqual(await chosen(paths, { follows: ['d/up'] }, links), ['d/', 'd/up', 'other']);
    assert.deepEqual(await chosen(paths, { follows: ['loop', 'gone'] }, links), ['gone', 'loop']);
    assert.deepEqual(await chosen(paths, { follows: ['l*/x'] }, links), [
      ...['l1', 'l2', 'loop', 'real/', 'real/x'],
    ]);
  });

  test('two paths through one link', async () => {
    const found = await chosen(['real/x', 'real/y'], { follows: ['l/x', 'l/y'] }, { l: 'real' });
    assert.deepEqual(found, ['l', 'real/', 'real/x', 'real/y']);
  });
});

test('a memory tree refuses invalid paths', () => {
  for (const path of ['', '.', '..', '/a', 'a/', 'a//b', './a', '../a', 'a/../b', 'a\0b']) {
    assert.throws(() => memoryTree({ [path]: 'x' }), TypeError, JSON.stringify(path));
  }
  for (const other of ['a', 'a/b']) {
    assert.throws(() => memoryTree({ [other]: 'x', [`${other}/c`]: 'x' }), TypeError);
    assert.throws(() => memoryTree({ [`${other}/c`]: 'x', [other]: 'x' }), TypeError);
  }
  memoryTree({ a: { directory: true }, 'a/b': '', '..a': '', 'a/..b': '' });
});

suite('large trees', () => {
  const manyPaths = (count: number) =>
    Array.from({ length: count }, (_, at) => `src/part${at % 100}/module-${at}/file.ts`);

  test('10,000 files and 1000 patterns do not block the event loop', async () => {
    const tree = treeOf(manyPaths(10_000));
    const excludes = Array.from(
      { length: 1000 },
      (_, at) => `**/*-${at}.${at % 2 ? 'log' : 'ts*'}`,
    );
    let count = 0;
    const before = process.cpuUsage();
    const { cpuMs } = await longestBlock(async () => {
      for await (const _ of walkTree(tree, { includes: [], follows: [], excludes })) count += 1;
    });
    const { user } = process.cpuUsage(before);
    assert.equal(count, 10_000 * 2 + 101);
    assertFree(cpuMs);
    // It took seven, all in one turn.
    assert.ok(user / 1000 < boundMs(6000), `${user / 1e6} s`);
  });

  test('a path of 2,000 directories in a COPY does not block the event loop', async () => {
    const deep = `${'a/'.repeat(2000)}b`;
    for (const paths of [[deep], ['other']]) {
      const tree = treeOf(paths);
      const { cpuMs } = await longestBlock(async () => {
        for await (const _ of walkTree(tree, { includes: [], follows: [deep], excludes: [] }));
      });
      assertFree(cpuMs);
    }
    const long = { includes: [], follows: [`${'a/'.repeat(30_000)}b`], excludes: [] };
    await assert.rejects(walkTree(treeOf(['a']), long).next(), /longer than a path can be/);
  });

  test('3,000 names in a COPY and 50,000 files do not block the event loop', async () => {
    const tree = treeOf(Array.from({ length: 50_000 }, (_, at) => `f${at}`));
    const follows = Array.from({ length: 3000 }, (_, at) => `f${at * 16}`);
    let count = 0;
    const { cpuMs } = await longestBlock(async () => {
      for await (const _ of walkTree(tree, { includes: [], follows, excludes: [] })) count += 1;
    });
    assert.equal(count, 3000);
    assertFree(cpuMs);
  });

  test('a directory of 200,000 files is sorted without blocking', async () => {
    const files = Array.from({ length: 200_000 }, (_, at) => ({
      name: `f${(at * 7919) % 200_000}`,
    }));
    let sorted: readonly { name: string }[] = [];
    const { cpuMs } = await longestBlock(async () => {
      sorted = await sortInTurns(files, (one, other) => (one.name < other.name ? -1 : 1));
    });
    assert.deepEqual(
      sorted.map(({ name }) => name),
      files.map(({ name }) => name).toSorted(),
    );
    assertFree(cpuMs);
  });

  test('patterns that would take too long for the files are refused', async () => {
    const hard = Array.from({ length: 490 }, () => `**/${'*a'.repeat(200)}*b`);
    const walk = async () => {
      const tree = treeOf([`c${'a'.repeat(199)}b`]);
      for await (const _ of walkTree(tree, { includes: [], follows: [], excludes: hard }));
    };
    const { cpuMs } = await longestBlock(() =>
      assert.rejects(walk(), /patterns of \.dockerignore and COPY are too many, or too long/),
    );
    assertFree(cpuMs);
    const many = { includes: [], follows: [], excludes: Array.from({ length: 6000 }, () => '*a') };
    await assert.rejects(walkTree(treeOf(['a']), many).next(), /more than 5000 patterns/);
    const long = { includes: [], follows: [], excludes: Array(1000).fill('*a'.repeat(101)) };
    await assert.rejects(walkTree(treeOf(['a']), long).next(), /more than 200000 characters/);
  });
});

function assertFree(cpuMs: number): void {
  const bound = boundMs(50);
  assert.ok(cpuMs < bound, `the event loop was held for ${cpuMs} ms, ${bound} are allowed`);
}

/** A tree of empty files, which is listed at once. */
function treeOf(paths: readonly string[]): FileTree {
  const directories = new Map<string, Map<string, TreeEntry>>([['', new Map()]]);
  for (const path of paths) {
    const parts = path.split('/');
    for (const [at, name] of parts.entries()) {
      const parent = parts.slice(0, at).join('/');
      const isLast = at === parts.length - 1;
      const kind = isLast ? 'file' : 'directory';
      directories.get(parent)?.set(name, { name, kind, mode: 0o644, size: 0, mtimeMs: 0 });
      const own = parts.slice(0, at + 1).join('/');
      if (!isLast && !directories.has(own)) directories.set(own, new Map());
    }
  }
  return {
    list: async directory => [...(directories.get(directory)?.values() ?? [])],
    async *read() {},
  };
}
