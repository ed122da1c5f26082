import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type FileTree, type MemoryFile, memoryTree } from '../../src/buildkit/index.ts';
import { followedLinks } from '../../src/builds/solve/context/context-tree.ts';
import { Fault } from '../../src/foundation/fault.ts';

/** Content of each file and target of each link, by path. */
async function shown(tree: FileTree, directory = ''): Promise<Record<string, string>> {
  const all: Record<string, string> = {};
  for (const { name, kind, target } of await tree.list(directory)) {
    const path = directory === '' ? name : `${directory}/${name}`;
    if (kind === 'directory') Object.assign(all, await shown(tree, path));
    else if (kind === 'symlink') all[path] = `-> ${target}`;
    else all[path] = await contentOf(tree, path);
  }
  return all;
}

async function contentOf(tree: FileTree, path: string): Promise<string> {
  const parts: Uint8Array[] = [];
  for await (const part of tree.read(path)) parts.push(part);
  return Buffer.concat(parts).toString();
}

const link = (symlink: string): MemoryFile => ({ symlink });

test('hard links are copies, and so is the target of a link', async () => {
  const entry = { kind: 'file', mode: 0o644, size: 1, mtimeMs: 0, inode: '1' } as const;
  const tree = followedLinks({
    list: async () => [
      { ...entry, name: 'a' },
      { ...entry, name: 'b' },
      { name: 'c', kind: 'symlink', mode: 0o777, size: 0, mtimeMs: 0, target: 'a' },
    ],
    read: path => memoryTree({ a: 'x', b: 'x' }).read(path),
  });
  const listed = await tree.list('');
  assert.deepEqual(
    listed.map(({ name, kind, inode }) => [name, kind, inode]),
    ['a', 'b', 'c'].map(name => [name, 'file', undefined]),
  );
});

test('the targets of links are included', async () => {
  const tree = followedLinks(
    memoryTree({
      'a/file': 'content',
      'a/sub/deep': 'deep',
      'b/one': link('../a/file'),
      'b/two': link('one'),
      'b/folder': link('../a/./sub/'),
      'b/through': link('folder/deep'),
      'b/nothing': link('../missing'),
      'b/outside': link('../../etc/passwd'),
      'b/absolute': link('/a/file'),
      'b/self': link('self'),
      'b/below-file': link('one/x'),
      'c/up': link('..'),
      'c/here': link('.'),
      'd/other': link('../e'),
      'e/other': link('../d'),
    }),
  );
  assert.deepEqual(await shown(tree), {
    'a/file': 'content',
    'a/sub/deep': 'deep',
    'b/one': 'content',
    'b/two': 'content',
    'b/folder/deep': 'deep',
    'b/through': 'deep',
    'b/nothing': '-> ../missing',
    'b/outside': '-> ../../etc/passwd',
    'b/absolute': '-> /a/file',
    'b/self': '-> self',
    'b/below-file': '-> one/x',
    'c/up': '-> ..',
    'c/here': '-> .',
    'd/other/other': '-> ../d',
    'e/other/other': '-> ../e',
  });
});

test('a file is read before its directory is listed', async () => {
  const tree = followedLinks(memoryTree({ 'a/x': 'content', l: link('a') }));
  assert.equal(await contentOf(tree, 'l/x'), 'content');
});

test('links that multiply are stopped', async () => {
  const files: Record<string, MemoryFile> = { 'd30/file': 'x' };
  for (let depth = 0; depth < 30; depth += 1) {
    for (const name of ['a', 'b', 'c']) files[`d${depth}/${name}`] = link(`../d${depth + 1}`);
  }
  await assert.rejects(
    shown(followedLinks(memoryTree(files))),
    error => error instanceof Fault && /links to more than/.test(error.message),
  );
});

test('links that lead to and fro again and again stay links', async () => {
  const files: Record<string, MemoryFile> = { 'd/x': 'content', l9: link('d') };
  for (let at = 0; at < 9; at += 1) files[`l${at}`] = link(`${'d/../'.repeat(810)}l${at + 1}`);
  const kinds = (await followedLinks(memoryTree(files)).list('')).map(
    ({ name, kind }) => name + kind,
  );
  const followed = kinds.filter(text => text.endsWith('directory'));
  assert.deepEqual(followed.toSorted(), [
    'ddirectory',
    'l7directory',
    'l8directory',
    'l9directory',
  ]);
});
