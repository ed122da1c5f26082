import assert from 'node:assert/strict';
import { test } from 'node:test';
import { digestOf } from '../../src/oci/digest.ts';
import type { Rows } from '../../src/storage/rows/rows.ts';

const hourMs = 3_600_000;

const message = (event: string, target = 'ci', createdAt = 1000, sender = '7') => ({
  ...{ event, target, createdAt, sender, kind: 'image.pushed', subject: 'team/app', body: '{}' },
});

/** @param withRows runs work on fresh rows and ends them */
export function testMessages(
  withRows: (work: (rows: Rows) => Promise<void>) => Promise<void>,
): void {
  test('messages are due in their order, wait after a failure, and end without attempts', () =>
    withRows(async ({ messages }) => {
      await messages.add([message('a'), message('b'), message('b', 'other')]);
      // A change that runs again after the response to its commit was lost.
      await messages.add([message('a')]);
      const due = (at: number) => messages.due('ci', at, hourMs, 10);
      const [first, second] = await due(2000);
      assert.deepEqual(
        { ...first, id: undefined },
        { ...message('a'), id: undefined, attempts: 0, deadAt: null, error: null },
      );
      assert.equal(second?.event, 'b');
      assert.equal((await due(2000)).length, 2);
      const id = first?.id as number;
      await messages.fail(id, { at: 2000, nextAt: 9000, error: 'it answered 500' });
      assert.deepEqual(
        (await due(8999)).map(({ event }) => event),
        ['b'],
      );
      assert.deepEqual(
        (await due(9000)).map(({ event, attempts }) => [event, attempts]),
        [
          ['a', 1],
          ['b', 0],
        ],
      );
      // A clock that was set back by a day.
      assert.equal((await due(9000 - 24 * hourMs)).length, 2);
      await messages.fail(id, { at: 9000, nextAt: undefined, error: 'it answered 500' });
      assert.equal((await due(99_000)).length, 1);
      const [dead, ...rest] = await messages.list({ isDead: true, limit: 10 });
      assert.equal(rest.length, 0);
      assert.deepEqual([dead?.id, dead?.deadAt, dead?.attempts], [id, 9000, 2]);
      assert.equal(await messages.resend(second?.id as number), false);
      assert.equal(await messages.resend(id), true);
      assert.deepEqual(
        (await due(9001)).map(({ event, attempts }) => [event, attempts]),
        [
          ['a', 0],
          ['b', 0],
        ],
      );
      await messages.remove(id);
      assert.deepEqual(
        (await messages.list({ limit: 10 })).map(({ event, target }) => `${event} ${target}`),
        ['b other', 'b ci'],
      );
      assert.equal(await messages.oldest('ci'), 1000);
      assert.equal(await messages.oldest('nobody'), undefined);
    }));

  test('each sender has its turn, and whoever has the most messages loses the newest of them', () =>
    withRows(async ({ messages }) => {
      const add = (events: string, sender: string) =>
        messages.add([...events].map(event => message(event, 'ci', 1000, sender)));
      const due = async () =>
        (await messages.due('ci', 2000, hourMs, 20)).map(({ event }) => event).join('');
      const remove = async (count: number) => {
        for (const { id } of await messages.due('ci', 2000, hourMs, count)) {
          await messages.remove(id);
        }
      };
      await add('abcdefgh', 'ada');
      await add('12', 'bo');
      assert.equal(await due(), 'a1b2cdefgh');
      await remove(5);
      assert.equal(await due(), 'defgh');
      await add('34', 'bo');
      await messages.add([message('x', 'other', 1000, 'ada')]);
      assert.equal(await due(), 'd3e4fgh', 'who comes back has no turns from before');
      assert.equal(await messages.trim('ci', 5), 2);
      assert.equal(await due(), 'd3e4f');
      await add('ij', 'ada');
      await add('5678', 'bo');
      assert.equal(await due(), 'd3e4f5i6j78');
      assert.equal(await messages.trim('ci', 2), 9);
      assert.equal(await due(), 'd3');
    }));

  test('too many messages lose the newest of their receiver, and too many without attempts the oldest', () =>
    withRows(async ({ messages }) => {
      await messages.add(['a', 'b', 'c', 'd', 'e'].map((event, at) => message(event, 'ci', at)));
      const rows = await messages.due('ci', 5000, hourMs, 10);
      for (const [at, place] of [3, 2].entries()) {
        const id = rows[place]?.id as number;
        await messages.fail(id, { at: 6000 + at, nextAt: undefined, error: 'no' });
      }
      const left = async () =>
        (await messages.list({ limit: 10 })).map(({ event }) => event).join('');
      // "d" and "c" have no attempts left.
      await messages.add([message('f', 'other', 10)]);
      assert.equal(await messages.trim('ci', 3), 0);
      assert.equal(await messages.trim('ci', 1), 2);
      assert.equal(await left(), 'fdca');
      assert.equal(await messages.trim('nobody', 0), 0);
      assert.equal(await messages.trimDead(2), 0);
      assert.equal(await messages.trimDead(1), 1);
      assert.equal(await left(), 'fca', 'the last attempt of "d" was before that of "c"');
      await messages.fail(rows[0]?.id as number, { at: 1, nextAt: undefined, error: 'no' });
      assert.equal(await messages.resendAll(), 2);
      await messages.purge(2);
      assert.equal(await left(), 'fc');
      const many = Array.from({ length: 300 }, (_, at) => message(`many ${at}`, 'ci', at));
      await messages.add(many);
      assert.equal(await messages.trim('ci', 1), 300);
      assert.equal((await messages.list({ limit: 10 }))[0]?.event, 'f');
    }));

  test('a message is written with its change, or not at all', () =>
    withRows(async ({ messages, hosted, contentRows }) => {
      const digest = digestOf(Buffer.from('{}'));
      const manifest = {
        ...{ digest, mediaType: 'application/vnd.oci.image.manifest.v1+json', size: 2 },
        ...{ subject: null, artifactType: null, annotations: null },
      };
      const limits = {
        maxBlobBytes: undefined,
        maxRepositoryBytes: undefined,
        maxTotalBytes: undefined,
      };
      const put = (event: string) =>
        hosted.putManifest({
          ...{ repository: 'team/app', manifest, blobs: [], manifests: [], tags: ['v1'], limits },
          messages: [message(event)],
        });
      const events = async () =>
        (await messages.list({ limit: 10 })).map(({ event }) => event).join(' ');
      assert.equal((await put('refused')).kind, 'gone');
      assert.equal(await events(), '');
      await contentRows.announce(digest, 2);
      await contentRows.arrive(digest);
      assert.equal((await put('pushed')).kind, 'put');
      assert.equal(
        await hosted.removeTag('team/app', 'v2', { messages: [message('nothing')] }),
        false,
      );
      assert.equal(
        await hosted.removeTag('team/app', 'v1', { messages: [message('untagged')] }),
        true,
      );
      assert.equal(
        await hosted.removeManifest('team/app', digest, { messages: [message('deleted')] }),
        true,
      );
      assert.equal(
        await hosted.removeManifest('team/app', digest, { messages: [message('again')] }),
        false,
      );
      assert.equal(await events(), 'deleted untagged pushed');
    }));
}
