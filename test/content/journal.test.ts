import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  appendFile,
  open,
  readdir,
  readlink,
  rm,
  stat,
  statfs,
  truncate,
  writeFile,
} from 'node:fs/promises';
import { join } from 'node:path';
import { mock, test } from 'node:test';
import { digestOf, splitDigest } from '../../src/oci/digest.ts';
import { openContentDirectory } from '../../src/storage/content/content-directory.ts';
import { assertBytes } from '../world/assert-bytes.ts';
import { eventually } from '../world/eventually.ts';
import { makeTempDir } from '../world/temp-dir.ts';
import { requireCommand } from '../world/tools.ts';

const documents = Array.from({ length: 20 }, (_, at) => Buffer.from(`document ${at}`));

function fileOf(root: string, bytes: Buffer): string {
  const { algorithm, hex } = splitDigest(digestOf(bytes));
  return join(root, 'blobs', algorithm, hex.slice(0, 2), hex);
}

test('the next start restores documents whose files a power failure has damaged or removed', async () => {
  await using directory = await makeTempDir('journal');
  const root = directory.join('content');
  const store = await openContentDirectory(root, { isOwner: true });
  await Promise.all(documents.map(bytes => store.write(digestOf(bytes), bytes)));
  await store.close();
  const [one, two, three] = documents.map(bytes => fileOf(root, bytes));
  assert.ok(one && two && three);
  await truncate(one);
  await writeFile(two, Buffer.alloc(10));
  await rm(three);
  const [segment = ''] = await readdir(join(root, 'journal'));
  await appendFile(join(root, 'journal', segment), `${digestOf(Buffer.from('late'))} 4\nla`);

  const command = await openContentDirectory(root);
  assert.equal(await command.read(digestOf(documents[0] as Buffer)), undefined);
  assert.deepEqual(await readdir(join(root, 'journal')), [segment], 'a command does not change it');
  const again = await openContentDirectory(root, { isOwner: true });
  for (const bytes of documents) assertBytes(await again.read(digestOf(bytes)), bytes);
  assert.equal(
    await again.size(digestOf(Buffer.from('late'))),
    undefined,
    'half a document is none',
  );
  await eventually('the journal is empty', async () => {
    return (await readdir(join(root, 'journal'))).length === 0;
  });
  await again.close();
});

test('the journal restarts before it is large', async () => {
  await using directory = await makeTempDir('journal');
  const root = directory.join('content');
  const store = await openContentDirectory(root, { isOwner: true });
  const mebibyte = 1024 * 1024;
  for (let at = 0; at < 20; at += 1) {
    const bytes = Buffer.alloc(mebibyte, `${at} `);
    await store.write(digestOf(bytes), bytes);
  }
  await eventually('one file is left, and a short one', async () => {
    const names = await readdir(join(root, 'journal'));
    const { size } = await stat(join(root, 'journal', names.at(-1) ?? ''));
    return names.length === 1 && size < 10 * mebibyte;
  });
  await store.close();
});

/** Files that this process has open below the directory. */
async function openBelow(root: string): Promise<string[]> {
  const numbers = await readdir('/proc/self/fd');
  const paths = await Promise.all(
    numbers.map(fd => readlink(`/proc/self/fd/${fd}`).catch(() => '')),
  );
  return paths.filter(path => path.startsWith(root));
}

test('a document that could not be written to the disk is absent, and leaves nothing behind', async () => {
  await using directory = await makeTempDir('journal');
  const root = directory.join('content');
  const store = await openContentDirectory(root, { isOwner: true });
  const write = (text: string) => store.write(digestOf(text), Buffer.from(text));
  await write('before');
  await using handle = await open(directory.join('handle'), 'w');
  const failing = mock.method(Object.getPrototypeOf(handle), 'datasync', () =>
    Promise.reject(Object.assign(new Error('EIO'), { code: 'EIO' })),
  );
  try {
    for (let at = 0; at < 5; at += 1) {
      const both = await Promise.allSettled([write('lost'), write('lost'), write('before')]);
      assert.deepEqual(
        both.map(({ status }) => status),
        ['rejected', 'rejected', 'rejected'],
      );
      assert.equal(await store.claim(digestOf('lost')), false);
      assert.equal(await store.claim(digestOf('before')), true, 'safe documents stay');
    }
  } finally {
    failing.mock.restore();
  }
  await write('lost');
  assert.equal(await store.claim(digestOf('lost')), true);
  const journal = join(root, 'journal');
  await eventually('one file is left', async () => {
    return (await readdir(journal)).length === 1 && (await openBelow(journal)).length === 1;
  });
  await store.close();
  assert.deepEqual(await openBelow(root), []);
  await rm(fileOf(root, Buffer.from('lost')));
  const again = await openContentDirectory(root, { isOwner: true });
  assertBytes(await again.read(digestOf('lost')), Buffer.from('lost'));
  await again.close();
});

test('a document gets its name once its bytes would survive a power failure', async () => {
  await using directory = await makeTempDir('journal');
  const root = directory.join('content');
  const store = await openContentDirectory(root, { isOwner: true });
  await using handle = await open(directory.join('handle'), 'w');
  const begun = Promise.withResolvers<void>();
  const synced = Promise.withResolvers<void>();
  const waiting = mock.method(Object.getPrototypeOf(handle), 'datasync', () => {
    begun.resolve();
    return synced.promise;
  });
  const document = Buffer.from('document');
  const written = store.write(digestOf(document), document);
  try {
    await begun.promise;
    assert.equal(await store.size(digestOf(document)), undefined);
  } finally {
    waiting.mock.restore();
    synced.resolve();
  }
  await written;
  assert.equal(await store.size(digestOf(document)), document.length);
  await store.close();
});

test('a document is also safe without the journal', async () => {
  await using directory = await makeTempDir('journal');
  const root = directory.join('content');
  const store = await openContentDirectory(root, { isOwner: true });
  const journal = join(root, 'journal');
  await rm(journal, { recursive: true });
  await writeFile(journal, '');
  const document = Buffer.from('document');
  await store.write(digestOf(document), document);
  assert.equal(await store.claim(digestOf(document)), true);
  await rm(journal);
  await store.close();
});

test('documents that come after a full disk are restored', async () => {
  await using directory = await makeTempDir('journal');
  const mebibyte = 1024 * 1024;
  const options = ['-t', 'tmpfs', '-o', `size=${8 * mebibyte}`];
  execFileSync(requireCommand('mount'), [...options, 'tmpfs', directory.path]);
  try {
    const root = directory.join('content');
    const store = await openContentDirectory(root, { isOwner: true });
    const write = (bytes: Buffer) => store.write(digestOf(bytes), bytes);
    const [before, during, after] = ['before', 'd'.repeat(mebibyte), 'after'].map(text =>
      Buffer.from(text),
    );
    assert.ok(before && during && after);
    await write(before);
    // There is space for a part of the document.
    const ballast = directory.join('ballast');
    const { bavail, bsize } = await statfs(directory.path);
    await writeFile(ballast, Buffer.alloc(bavail * bsize - mebibyte / 2));
    await assert.rejects(write(during), { code: 'ENOSPC' });
    await rm(ballast);
    await write(after);
    await store.close();
    await rm(fileOf(root, before));
    await rm(fileOf(root, after));
    const again = await openContentDirectory(root, { isOwner: true });
    for (const bytes of [before, after]) assertBytes(await again.read(digestOf(bytes)), bytes);
    assert.equal(await again.size(digestOf(during)), undefined);
    await again.close();
  } finally {
    execFileSync(requireCommand('umount'), ['--lazy', directory.path]);
  }
});
