/** Many readers of the tree of a hostile layer. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { after, before, test } from 'node:test';
import { mergeLayers } from '../../src/images/listing/comparing/merge-layers.ts';
import { buildTree } from '../../src/images/listing/comparing/tree-builder.ts';
import type { ListedEntry } from '../../src/images/listing/listed-entry.ts';
import { createOpenTree, type OpenTree } from '../../src/images/listing/records/opened-tree.ts';
import { packTree } from '../../src/images/listing/records/tree-file.ts';
import { boundMs, longestBlock } from '../world/longest-block.ts';
import { makeTempDir, type TempDir } from '../world/temp-dir.ts';

const mib = 1024 ** 2;
const count = 14_000;
let directory: TempDir;
let path: string;
let openTree: OpenTree;

before(async () => {
  directory = await makeTempDir('opened-tree');
  path = directory.join('tree');
  // Names in another order than sizes, so that a list by size needs a page for each row.
  const entries = Array.from({ length: count }, (_, at): ListedEntry => {
    const usual = { hash: '', twice: 0, isImplicit: false, hides: false, hasCapabilities: false };
    return {
      ...{ ...usual, key: String(at).padStart(8, '0'), kind: 'symlink', mode: 0o777 },
      ...{ uid: 0, gid: 0, size: (at * 7919) % count, link: randomBytes(4000).toString('latin1') },
    };
  });
  await writeFile(path, packTree(buildTree(0, mergeLayers([entries.values()]), count + 1)));
  openTree = createOpenTree();
});
after(() => directory?.remove());

/** Returns by how much the bytes outside of the heap grow while work is done, at most. */
async function mostBytes(work: () => Promise<unknown>): Promise<number> {
  const bytesNow = () => process.memoryUsage().arrayBuffers;
  const before = bytesNow();
  let most = before;
  const timer = setInterval(() => {
    most = Math.max(most, bytesNow());
  }, 1);
  try {
    await work();
  } finally {
    clearInterval(timer);
  }
  return Math.max(most, bytesNow()) - before;
}

test('many readers of long links share little memory, and leave turns to others', async t => {
  const show = async (at: number) => {
    await using tree = await openTree(path);
    const window = { sort: 'size', offset: at * 100, limit: 100 } as const;
    return (await tree.children(tree.root, window)).length;
  };
  let bytes = 0;
  const { cpuMs: block } = await longestBlock(async () => {
    bytes = await mostBytes(async () => {
      const shown = await Promise.all(Array.from({ length: 40 }, (_, at) => show(at)));
      assert.ok(shown.every(rows => rows === 100));
    });
  });
  t.diagnostic(`${Math.round(bytes / mib)} MiB, ${block.toFixed(0)} ms`);
  assert.ok(bytes < 200 * mib, `${Math.round(bytes / mib)} MiB`);
  assert.ok(block < boundMs(50), `${block} ms`);
});

test('many searches take turns', async t => {
  const search = async (text: string) => {
    await using tree = await openTree(path);
    const found = await tree.search(
      { text, change: undefined },
      { sort: 'name', offset: 0, limit: 2 },
    );
    return [found.count, ...found.nodes.map(({ name }) => name)];
  };
  let bytes = 0;
  const { cpuMs: block } = await longestBlock(async () => {
    bytes = await mostBytes(async () => {
      const found = await Promise.all(Array.from({ length: 20 }, () => search('00000123')));
      for (const one of found) assert.deepEqual(one, [1, '00000123']);
    });
  });
  t.diagnostic(`${Math.round(bytes / mib)} MiB, ${block.toFixed(0)} ms`);
  assert.ok(bytes < 200 * mib, `${Math.round(bytes / mib)} MiB`);
  assert.ok(block < boundMs(50), `${block} ms`);
});

test('a search ends when its viewer has left, also while it waits for its turn', async () => {
  const window = { sort: 'name', offset: 0, limit: 2 } as const;
  const nothing = { text: 'no such name', change: undefined };
  await using tree = await openTree(path);
  const gone = new AbortController();
  const searches = Array.from({ length: 20 }, () => tree.search(nothing, window, gone.signal));
  setImmediate(() => gone.abort(new Error('the viewer has left')));
  for (const one of await Promise.allSettled(searches)) {
    assert.equal(one.status === 'rejected' && one.reason.message, 'the viewer has left');
  }
  // Their turns are free again.
  assert.equal((await tree.search(nothing, window)).count, 0);
});
