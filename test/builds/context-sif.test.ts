/** SIF files of build contexts. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { type FileTree, memoryTree } from '../../src/buildkit/index.ts';
import { followedLinks } from '../../src/builds/solve/context/context-tree.ts';
import { copyContextSif } from '../../src/builds/solve/sif/stage-sif-bases.ts';
import { createScratchSpace } from '../../src/images/sif/conversion-limits.ts';
import { unlimitedSpace } from '../../src/storage/directory/disk-space.ts';
import { makeTempDir } from '../world/temp-dir.ts';

const limits = { maxEntries: 10, maxUnpackedBytes: 1000, maxScratchBytes: 10 };

test('a SIF file is copied out of the build context, within its limits', async () => {
  await using directory = await makeTempDir('context-sif');
  const files = memoryTree({
    ...{ 'images/base.sif': 'a base', large: '12345678901', 'folder/x': 'x' },
    ...{ link: { symlink: 'images/base.sif' }, inner: { symlink: 'images' } },
    ...{ out: { symlink: '/etc/passwd' }, above: { symlink: '../base.sif' } },
    loop: { symlink: 'loop' },
  });
  let copies = 0;
  const copy = async (path: string, tree: FileTree = files) => {
    const target = directory.join(String(copies++));
    const space = createScratchSpace(limits, unlimitedSpace.promise(0));
    const { signal } = new AbortController();
    await copyContextSif(followedLinks(tree), path, target, space, signal);
    return readFile(target, 'utf8');
  };
  for (const path of ['images/base.sif', 'link', 'inner/base.sif']) {
    assert.equal(await copy(path), 'a base', path);
  }
  for (const [path, reason] of [
    ['large', /limit of 10 bytes of disk space/],
    ['folder', /The file 'folder' of the build context is a directory: make a SIF file of it/],
    ['out', /is a link to something that is not in the build context/],
    ['above', /is a link to something that is not in the build context/],
    ['loop', /is a link to something that is not in the build context/],
    ['missing', /does not exist/],
    ['link/below', /does not exist/],
    ['folder/x/below', /does not exist/],
  ] as const) {
    await assert.rejects(copy(path), reason, path);
  }
  const lying = (content: string): FileTree => ({
    list: async () => [{ name: 'lying', kind: 'file', mode: 0o644, size: 5, mtimeMs: 0 }],
    async *read() {
      for (const part of content) yield Buffer.from(part);
    },
  });
  for (const content of ['1234', '123456789012345']) {
    await assert.rejects(copy('lying', lying(content)), /changed while it was read/);
  }
});
