/** Shared transfers of blobs that are not kept, on a disk that others also need. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { statfs } from 'node:fs/promises';
import { after, before, test } from 'node:test';
import { pino } from 'pino';
import { digestOf } from '../../src/oci/digest.ts';
import { createBlobRelays, type FoundBlob } from '../../src/pull/blobs/blob-relays.ts';
import { createTransfers } from '../../src/pull/blobs/transfers.ts';
import { type ByteSource, drain } from '../../src/storage/content/byte-source.ts';
import { openContentDirectory } from '../../src/storage/content/content-directory.ts';
import { createDiskSpace } from '../../src/storage/directory/disk-space.ts';
import { pattern } from '../faults/scripted-upstream.ts';
import { assertBytes } from '../world/assert-bytes.ts';
import { eventually } from '../world/eventually.ts';
import { makeTempDir, type TempDir } from '../world/temp-dir.ts';
import { requireCommand } from '../world/tools.ts';

const mebibyte = 1024 * 1024;
const blob = pattern(20 * mebibyte, 'shared relays');
let directory: TempDir;

before(async () => {
  directory = await makeTempDir('shared-relays');
  const options = ['-t', 'tmpfs', '-o', `size=${40 * mebibyte}`];
  execFileSync(requireCommand('mount'), [...options, 'tmpfs', directory.path]);
});
after(async () => {
  execFileSync(requireCommand('umount'), [directory.path]);
  await directory.remove();
});

/** Sends the pieces; after one of them it waits for `resume`, and calls `waits` before. */
function pausingSource(bytes: Buffer, pauseAt: number, waits: () => void, resume: Promise<void>) {
  let position = 0;
  const source: ByteSource = {
    async read() {
      if (position === pauseAt) {
        waits();
        await resume;
      }
      const piece = bytes.subarray(position, position + mebibyte);
      position += piece.length;
      return piece.length > 0 ? { bytes: piece, release() {} } : null;
    },
    destroy() {},
  };
  return source;
}

/** A first client, which stays, and a second one, whose shared transfer pauses after 4 MiB. */
async function sharing(again: Buffer = blob) {
  await eventually('the copies of the test before are removed', async () => {
    const { bavail, bsize } = await statfs(directory.path);
    return bavail * bsize > 39 * mebibyte;
  });
  const space = await createDiskSpace(directory.path, 0, pino({ level: 'silent' }));
  const store = await openContentDirectory(directory.join('content'), { space });
  const relays = createBlobRelays(createTransfers(store), 1e9);
  const paused = Promise.withResolvers<void>();
  const { promise: resumed, resolve: resume } = Promise.withResolvers<void>();
  const never = new Promise<void>(() => {});
  const opened: string[] = [];
  const streamOf = (source: ByteSource): FoundBlob => ({
    ...{ kind: 'stream', size: blob.length, source, delivery: 'relayed', isVerified: false },
  });
  const wanted = {
    digest: digestOf(blob),
    openWhole: async () => {
      opened.push('whole');
      const isFirst = opened.filter(how => how === 'whole').length === 1;
      const source = isFirst
        ? pausingSource(blob, 4 * mebibyte, paused.resolve, resumed)
        : pausingSource(again, -1, () => {}, never);
      return { size: blob.length, source };
    },
  };
  const pull = async (size = blob.length) => {
    const direct = async () => {
      opened.push('direct');
      return streamOf(pausingSource(blob, 0, () => {}, never));
    };
    const found = await relays.open('it', direct, wanted, size, new AbortController().signal);
    assert.ok(found.kind === 'stream');
    return found.source;
  };
  const first = await pull();
  const read = async (source: ByteSource) => {
    const pieces: Buffer[] = [];
    await drain(source, bytes => pieces.push(Buffer.from(bytes)));
    return Buffer.concat(pieces);
  };
  return { store, space, pull, read, first, opened, paused: paused.promise, resume };
}

test('slow clients of a blob reserve no space for bytes that have not arrived', async () => {
  const { store, pull, read, first, paused, resume } = await sharing();
  const second = read(await pull());
  await paused;
  const other = await store.ingest('sha256', 34 * mebibyte);
  await other.abort();
  resume();
  assertBytes(await second, blob);
  first.destroy();
});

test('a client has its own transfer of a blob for which there is no space', async () => {
  const { store, pull, first, opened } = await sharing();
  const other = await store.ingest('sha256', 30 * mebibyte);
  const second = await pull();
  assert.deepEqual(opened, ['direct', 'whole', 'direct']);
  for (const source of [first, second]) source.destroy();
  await other.abort();
});

test('when the disk fills up, clients of a shared transfer get the rest of the blob from the registry', async () => {
  const { store, pull, read, first, opened, paused, resume } = await sharing();
  const clients = [read(await pull()), read(await pull())];
  await paused;
  const other = await store.ingest('sha256', 30 * mebibyte);
  resume();
  for (const bytes of await Promise.all(clients)) assertBytes(bytes, blob);
  assert.deepEqual(opened, ['direct', 'whole', 'whole', 'whole']);
  first.destroy();
  await other.abort();
});

for (const at of [0, blob.length - 1]) {
  test(`a client does not get the last bytes when the registry then sends a different byte at ${at}`, async () => {
    const different = Buffer.from(blob);
    different.writeUInt8(different.readUInt8(at) ^ 1, at);
    const { store, pull, read, first, paused, resume } = await sharing(different);
    const second = read(await pull());
    await paused;
    const other = await store.ingest('sha256', 30 * mebibyte);
    resume();
    await assert.rejects(second, /different content/);
    first.destroy();
    await other.abort();
  });
}
