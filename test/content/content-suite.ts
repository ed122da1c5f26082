import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { Fault } from '../../src/foundation/fault.ts';
import { type Digest, digestOf } from '../../src/oci/digest.ts';
import { enterUnknown } from '../../src/server/upkeep/sweep/sweep.ts';
import { drain } from '../../src/storage/content/byte-source.ts';
import { createContentPresence } from '../../src/storage/content/content-presence.ts';
import type { ContentStore } from '../../src/storage/content/content-store.ts';
import type { ContentRowStore } from '../../src/storage/rows/content-rows.ts';
import { assertBytes } from '../world/assert-bytes.ts';
import { type RestartedContent, testDrafts } from './draft-suite.ts';

/** An empty store and its rows, until it is disposed of. */
export interface OpenedContent extends RestartedContent {
  readonly rows: ContentRowStore;
  /** Puts bytes into the store without a row, as an earlier version did. */
  leaveWithoutRow(bytes: Buffer): Promise<void>;
  /** Removes bytes without the store, as an accident does. */
  lose(digest: Digest): Promise<void>;
}

const forever = Number.POSITIVE_INFINITY;

/** Tests of what every implementation of a content store does. */
export function contentSuite(name: string, open: () => Promise<OpenedContent>): void {
  suite(`content in ${name}`, () => {
    test('ingested content can be read completely and in parts', async () => {
      await using opened = await open();
      const { content } = opened;
      await fc.assert(
        fc.asyncProperty(
          fc.array(fc.uint8Array({ maxLength: 3000 }), { maxLength: 5 }),
          fc.constantFrom('sha256', 'sha512') as fc.Arbitrary<'sha256' | 'sha512'>,
          async (parts, algorithm) => {
            const whole = Buffer.concat(parts);
            const ingest = await content.ingest(algorithm);
            let size = 0;
            for (const part of parts) {
              await ingest.write(part);
              size += part.length;
              assert.equal(ingest.size, size);
            }
            const expected = digestOf(whole, algorithm);
            assert.equal(ingest.digest(), expected);
            assert.equal(await ingest.commit(), expected);
            await ingest.abort();
            assert.equal(await content.size(expected), whole.length);
            assertBytes(await content.read(expected), whole);
            if (whole.length < 3) return;
            assert.deepEqual(
              await rangeOf(content, expected, 1, whole.length - 2),
              whole.subarray(1, -1),
            );
          },
        ),
        { numRuns: 25 },
      );
    });

    test('content is invisible before its commit and after an abort', async () => {
      await using opened = await open();
      const { content } = opened;
      const digest = digestOf('half');
      const ingest = await content.ingest();
      await ingest.write(Buffer.from('half'));
      assert.equal(await content.size(digest), undefined);
      assert.equal(await content.read(digest), undefined);
      assert.equal(await content.claim(digest), false);
      await ingest.abort();
      await ingest.abort();
      assert.deepEqual(await listed(content), []);
    });

    test('the digest algorithm can change during an ingest', async () => {
      await using opened = await open();
      const ingest = await opened.content.ingest('sha256');
      await ingest.write(Buffer.from('first, '));
      await ingest.hashWith('sha512');
      await ingest.write(Buffer.from('second'));
      assert.equal(await ingest.commit(), digestOf('first, second', 'sha512'));
    });

    testDrafts(open);

    test('a reader follows an ingest, also after the commit', async () => {
      await using opened = await open();
      const ingest = await opened.content.ingest();
      await ingest.write(Buffer.from('0123'));
      const early = await ingest.openToRead();
      const unused = await ingest.openToRead();
      let closed = 0;
      const range = {
        start: 1,
        end: 6,
        available: async () => ingest.size,
        onClose: () => (closed += 1),
      };
      const source = early.read(range);
      const first = await source.read();
      assert.equal(Buffer.from(first?.bytes ?? []).toString(), '123');
      first?.release();
      await ingest.write(Buffer.from('456789'));
      await ingest.commit();
      const rest: Buffer[] = [];
      await drain(source, bytes => rest.push(Buffer.from(bytes)));
      assert.equal(Buffer.concat(rest).toString(), '456');
      assert.equal(closed, 1);
      unused.close();
      const late = await ingest.openToRead();
      const whole: Buffer[] = [];
      await drain(late.read({ ...range, start: 0, end: 9 }), bytes =>
        whole.push(Buffer.from(bytes)),
      );
      assert.equal(Buffer.concat(whole).toString(), '0123456789');
    });

    test('the same content in many simultaneous ingests is stored once', async () => {
      await using opened = await open();
      const { content, rows } = opened;
      const bytes = Buffer.from('the same');
      const digest = digestOf(bytes);
      await Promise.all(
        Array.from({ length: 10 }, (_, at) =>
          at % 2 === 0 ? content.write(digest, bytes) : ingested(content, bytes),
        ),
      );
      assertBytes(await content.read(digest), bytes);
      assert.deepEqual(await listed(content), [digest]);
      assert.deepEqual(await statesOf(rows), [[digest, bytes.length, 'here']]);
    });

    test('a leased file has the content', async () => {
      await using opened = await open();
      const { content } = opened;
      const bytes = Buffer.from('for a program');
      const digest = await ingested(content, bytes);
      await using file = await content.lease(digest);
      assert.ok(file);
      assertBytes(await readFile(file.path), bytes);
      assert.equal(await content.lease(digestOf('absent')), undefined);
    });

    test('a scratch file is not content, and is removed when it is disposed', async () => {
      await using opened = await open();
      const { content } = opened;
      const file = await content.scratch();
      await file.write(Buffer.from('one, '));
      await file.write(Buffer.from('two'));
      assert.equal(await readFile(file.path, 'utf8'), 'one, two');
      assert.deepEqual(await listed(content), []);
      await file[Symbol.asyncDispose]();
      await assert.rejects(readFile(file.path), /ENOENT/);
    });

    test('a claim renews the use of content, and fails for absent content', async () => {
      await using opened = await open();
      const { content, rows } = opened;
      const digest = await ingested(content, Buffer.from('used'));
      const before = Date.now();
      assert.equal(await content.claim(digest), true);
      assert.ok((await rowsOf(rows))[0]?.usedAt ?? 0 >= before);
      assert.equal(await content.claim(digestOf('absent')), false);
      assert.equal((await rowsOf(rows)).length, 1, 'a failed claim leaves no row');
    });

    test('only unused and unreferenced content is removed', async () => {
      await using opened = await open();
      const { content, rows } = opened;
      const digest = await ingested(content, Buffer.from('old'));
      const remove = (usedBefore: number) =>
        content.remove(digest, () => rows.markUnused(digest, usedBefore));
      assert.equal(await remove(Date.now() - 60_000), false, 'it was just used');
      assert.equal(await content.size(digest), 3);
      assert.equal(await remove(forever), true);
      assert.equal(await remove(forever), false);
      assert.equal(await content.size(digest), undefined);
      assert.equal(await content.claim(digest), false);
      assert.deepEqual(await rowsOf(rows), []);
    });

    test('a reader continues when its content is removed', async () => {
      await using opened = await open();
      const { content } = opened;
      const bytes = Buffer.alloc(2_000_000, 'long ');
      const digest = await ingested(content, bytes);
      const source = content.open(digest, 0, bytes.length - 1);
      const parts: Buffer[] = [];
      const first = await source.read();
      parts.push(Buffer.from(first?.bytes ?? []));
      first?.release();
      assert.equal(await content.discard(digest), true);
      await drain(source, part => parts.push(Buffer.from(part)));
      assert.ok(Buffer.concat(parts).equals(bytes));
    });

    test('content that arrives during its removal waits until the removal ends', async () => {
      await using opened = await open();
      const { content, rows } = opened;
      const bytes = Buffer.from('again');
      const digest = await ingested(content, bytes);
      assert.equal(await rows.condemn(digest), true);
      assert.equal(await content.claim(digest), false, 'it is going');
      const order: string[] = [];
      const comes = ingested(content, bytes).then(() => order.push('came'));
      const kept = content.write(digest, bytes).then(() => order.push('kept'));
      await new Promise(resolve => setTimeout(resolve, 30));
      order.push('gone');
      await content.remove(digest, async () => true);
      await Promise.all([comes, kept]);
      assert.equal(order[0], 'gone');
      assertBytes(await content.read(digest), bytes);
      assert.deepEqual(await statesOf(rows), [[digest, bytes.length, 'here']]);
    });

    test('content that a sweep removes between its announcement and its arrival is refused', async () => {
      await using opened = await open();
      const { content, rows } = opened;
      const digest = digestOf('late');
      assert.equal(await rows.announce(digest, 4), 'coming');
      assert.equal(await rows.markUnused(digest, forever), false, 'somebody brings it');
      assert.equal(await rows.condemn(digest), true);
      assert.equal(await rows.arrive(digest), false);
      await content.remove(digest, async () => true);
      assert.equal(await rows.arrive(digest), false);
      assert.deepEqual(await rowsOf(rows), []);
    });

    test('content that is removed between a second announcement and its arrival is refused', async () => {
      await using opened = await open();
      const { content, rows } = opened;
      const digest = await ingested(content, Buffer.from('twice'));
      const { size } = content;
      const presence = createContentPresence(rows, { size, remove: async () => true });
      const stays = await presence.enter(digest, 5);
      await stays();
      const leaves = await presence.enter(digest, 5);
      assert.equal(await rows.condemn(digest), true);
      await assert.rejects(leaves(), { kind: 'unavailable' });
      await content.remove(digest, async () => true);
      await assert.rejects(leaves(), { kind: 'unavailable' });
    });

    test('a removal of an ended process is finished by another process', async t => {
      await using opened = await open();
      const { content, rows } = opened;
      const bytes = Buffer.from('abandoned');
      const digest = await ingested(content, bytes);
      await rows.condemn(digest);
      assert.equal(await rows.takeOver(digest), false, 'it may still be in progress');
      t.mock.timers.enable({ apis: ['Date'], now: Date.now() + 120_000 });
      assert.equal(await ingested(content, bytes), digest);
      assert.deepEqual(await statesOf(rows), [[digest, bytes.length, 'here']]);
    });

    test('content without a row gets one', async () => {
      await using opened = await open();
      const { content, rows } = opened;
      const bytes = Buffer.from('of an earlier version');
      await opened.leaveWithoutRow(bytes);
      const digest = digestOf(bytes);
      assert.equal(await enterUnknown(content, rows, { isDryRun: true }), 1);
      assert.deepEqual(await rowsOf(rows), []);
      assert.equal(await enterUnknown(content, rows, { isDryRun: false }), 0);
      assert.deepEqual(await statesOf(rows), [[digest, bytes.length, 'here']]);
    });

    test('content of a killed process can be claimed, and is removed otherwise', async t => {
      await using opened = await open();
      const { content, rows } = opened;
      const bytes = Buffer.from('announced');
      const digest = digestOf(bytes);
      await opened.leaveWithoutRow(bytes);
      await rows.announce(digest, bytes.length);
      await enterUnknown(content, rows, { isDryRun: false });
      assert.deepEqual(await statesOf(rows), [[digest, bytes.length, 'coming']]);
      const remove = () => content.remove(digest, () => rows.markUnused(digest, forever));
      assert.equal(await remove(), false, 'it may be on its way');
      assert.equal(await content.claim(digest), true);
      assert.deepEqual(await statesOf(rows), [[digest, bytes.length, 'here']]);

      await rows.condemn(digest);
      await rows.forget(digest);
      await rows.announce(digest, bytes.length);
      t.mock.timers.enable({ apis: ['Date'], now: Date.now() + 2 * 3_600_000 });
      assert.equal(await remove(), true);
      assert.deepEqual(await rowsOf(rows), []);
    });

    test('a claim enters content without a row', async () => {
      await using opened = await open();
      const bytes = Buffer.from('of an earlier version');
      await opened.leaveWithoutRow(bytes);
      assert.equal(await opened.content.claim(digestOf(bytes)), true);
      assert.deepEqual(await statesOf(opened.rows), [[digestOf(bytes), bytes.length, 'here']]);
    });

    test('lost content cannot be claimed, and returns when it is sent again', async () => {
      await using opened = await open();
      const { content } = opened;
      const bytes = Buffer.from('lost and found');
      const digest = digestOf(bytes);
      await content.write(digest, bytes);
      await opened.lose(digest);
      assert.equal(await content.claim(digest), false);
      await content.write(digest, bytes);
      assertBytes(await content.read(digest), bytes);
      await opened.lose(digest);
      await ingested(content, bytes);
      assertBytes(await content.read(digest), bytes);
    });

    test('claimed content is not removed, whatever happens at the same time', async () => {
      await using opened = await open();
      const { content, rows } = opened;
      const bytes = Buffer.from('wanted by all');
      const digest = digestOf(bytes);
      let isOver = false;
      let removals = 0;
      /** Content that is referenced at this moment: a sweep that removes it has failed. */
      const references = new Set<symbol>();
      const bring = async (at: number): Promise<void> => {
        for (let round = 0; round < 40; round += 1) {
          try {
            if (at % 2 === 0) await content.write(digest, bytes);
            else await ingested(content, bytes);
          } catch (error) {
            assert.ok(error instanceof Fault && error.kind === 'unavailable', String(error));
            continue;
          }
          const reference = Symbol();
          references.add(reference);
          if (await content.claim(digest)) {
            assertBytes(await content.read(digest), bytes, 'claimed content is here');
          }
          references.delete(reference);
          await new Promise(setImmediate);
        }
      };
      const sweep = async (): Promise<void> => {
        while (!isOver) {
          const mark = async () =>
            references.size === 0 && (await rows.markUnused(digest, forever));
          if (await content.remove(digest, mark)) removals += 1;
          await new Promise(setImmediate);
        }
      };
      const sweeping = Promise.all([sweep(), sweep()]);
      await Promise.all(Array.from({ length: 6 }, (_, at) => bring(at)));
      isOver = true;
      await sweeping;
      assert.ok(removals > 0);
      // Bytes that came too late have no row until a sweep enters them.
      await enterUnknown(content, rows, { isDryRun: false });
      const states = await statesOf(rows);
      const isHere = (await content.size(digest)) !== undefined;
      assert.equal(
        states.some(([, , state]) => state === 'here'),
        isHere,
        'rows and bytes agree',
      );
    });
  });
}

/** Puts bytes into a store, and returns their digest. */
export async function ingested(content: ContentStore, bytes: Buffer): Promise<Digest> {
  const ingest = await content.ingest();
  try {
    await ingest.write(bytes);
    return await ingest.commit();
  } finally {
    await ingest.abort();
  }
}

/** Reads content from its first to its last byte given. */
export async function rangeOf(content: ContentStore, digest: Digest, start: number, end: number) {
  const parts: Buffer[] = [];
  await drain(content.open(digest, start, end), bytes => parts.push(Buffer.from(bytes)));
  return Buffer.concat(parts);
}

async function listed(content: ContentStore): Promise<Digest[]> {
  const digests: Digest[] = [];
  for await (const { digest } of content.list()) digests.push(digest);
  return digests;
}

const rowsOf = (rows: ContentRowStore) => rows.after('', 100, 0);

async function statesOf(rows: ContentRowStore) {
  return (await rowsOf(rows)).map(({ digest, size, state }) => [digest, size, state]);
}
