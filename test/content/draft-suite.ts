import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { digestOf } from '../../src/oci/digest.ts';
import type { ContentStore } from '../../src/storage/content/content-store.ts';
import type { KeptDraft } from '../../src/storage/content/ingest.ts';
import { assertBytes } from '../world/assert-bytes.ts';
import { eventually } from '../world/eventually.ts';

/** An empty store, until it is disposed of. */
export interface RestartedContent extends AsyncDisposable {
  readonly content: ContentStore;
  /** Opens it again, as after a crash, except that the first one goes on. Only the drafts stay. */
  restart(kept: readonly KeptDraft[]): Promise<ContentStore>;
}

const mebibyte = 1024 ** 2;

/** Tests of content that one process begins and another one finishes. */
export function testDrafts(open: () => Promise<RestartedContent>): void {
  test('content that was kept on its way in is resumed by another process', async () => {
    await using opened = await open();
    const { content } = opened;
    const parts = ['first, ', 'second, ', 'third'].map(text => Buffer.from(text));
    const [first = parts[0], second = parts[0], third = parts[0]] = parts;
    const ingest = await content.ingest('sha512');
    await ingest.write(first as Buffer);
    await ingest.keep();
    await ingest.write(second as Buffer);
    const kept = await ingest.keep();
    await ingest.write(Buffer.from('never acknowledged'));
    const later = await opened.restart([kept]);
    const resumed = await later.resume(kept);
    assert.ok(resumed);
    assert.equal(resumed.size, 15);
    assert.equal(resumed.digest(), digestOf('first, second, ', 'sha512'));
    await resumed.write(third as Buffer);
    const again = await resumed.keep();
    assert.equal(again.size, 20);
    const last = await (await opened.restart([again])).resume(again);
    assert.ok(last);
    const digest = digestOf('first, second, third', 'sha512');
    assert.equal(await last.commit(), digest);
    assertBytes(await later.read(digest), Buffer.from('first, second, third'));
    await last.abort();
    assert.equal(await later.resume(again), undefined);
    for (const ended of [ingest, resumed]) await ended.abort();
    assert.equal(await later.size(digest), 20);
  });

  test('large content that was kept in pieces of odd sizes is resumed', async () => {
    await using opened = await open();
    const bytes = randomBytes(28 * mebibyte + 17);
    const ends = [1, 9 * mebibyte, 25 * mebibyte + 5, bytes.length];
    let ingest = await opened.content.ingest();
    const begun = [ingest];
    let from = 0;
    for (const end of ends) {
      for (; from < end; from += mebibyte) {
        await ingest.write(bytes.subarray(from, Math.min(end, from + mebibyte)));
      }
      from = end;
      const kept = await ingest.keep();
      const resumed = await (await opened.restart([kept])).resume(kept);
      assert.ok(resumed);
      assert.equal(resumed.size, end);
      ingest = resumed;
      begun.push(resumed);
    }
    assert.equal(ingest.digest(), digestOf(bytes));
    for (const one of begun) await one.abort();
  });

  test('bytes that were sent and never acknowledged are not in the way', async () => {
    await using opened = await open();
    const bytes = randomBytes(22 * mebibyte);
    const part = (from: number, to: number) => bytes.subarray(from * mebibyte, to * mebibyte);
    const first = await opened.content.ingest();
    await first.write(part(0, 1));
    const acknowledged = await first.keep();
    await first.write(part(1, 21));
    await first.keep();
    const second = await (await opened.restart([acknowledged])).resume(acknowledged);
    assert.ok(second);
    let kept = acknowledged;
    for (let at = 1; at < 21; at += 5) {
      await second.write(part(at, at + 5));
      kept = await second.keep();
    }
    const third = await (await opened.restart([kept])).resume(kept);
    assert.equal(third?.digest(), digestOf(part(0, 21)));
    for (const one of [first, second, third]) await one?.abort();
  });

  test('what is left is continued', async () => {
    await using opened = await open();
    const first = await opened.content.ingest();
    await first.write(Buffer.from('kept'));
    const kept = await first.keep();
    await first.write(Buffer.from(' and lost'));
    await first.leave();
    const resumed = await opened.content.resume(kept);
    assert.equal(resumed?.digest(), digestOf('kept'));
    await resumed?.abort();
  });

  test('what was kept and nobody continues is removed', async () => {
    await using opened = await open();
    const [aborted, dropped, forgotten, known] = await Promise.all(
      ['a', 'b', 'c', 'd'].map(async text => {
        const ingest = await opened.content.ingest();
        await ingest.write(Buffer.from(text));
        return { ingest, kept: await ingest.keep() };
      }),
    );
    assert.ok(aborted && dropped && forgotten && known);
    await aborted.ingest.abort();
    await opened.content.drop(dropped.kept);
    const later = await opened.restart([known.kept]);
    const forever = Number.POSITIVE_INFINITY;
    await eventually('a sweep leaves what is known', async () => {
      await later.removeStrayDrafts(forever, [known.kept]);
      return (await later.resume(aborted.kept)) === undefined;
    });
    const resumed = await Promise.all(
      [aborted, dropped, forgotten, known].map(({ kept }) => later.resume(kept)),
    );
    assert.deepEqual(
      resumed.map(found => found?.size),
      [undefined, undefined, undefined, 1],
    );
    for (const ingest of [resumed[3], forgotten.ingest, known.ingest, dropped.ingest]) {
      await ingest?.abort();
    }
  });
}
