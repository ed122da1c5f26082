/** Webhooks with real receivers, and their faults. */
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { type TestContext, test } from 'node:test';
import pino from 'pino';
import {
  createWebhookDelivery,
  startMessageSender,
  type Webhook,
} from '../../src/messages/index.ts';
import { createAnnounce, eventKinds } from '../../src/messages/site-event.ts';
import { digestOf } from '../../src/oci/digest.ts';
import { openRows, type Rows } from '../../src/storage/rows/rows.ts';
import { eventually } from '../world/eventually.ts';
import { type Receiver, startReceiver } from './receiver.ts';

const digest = digestOf(Buffer.from('{}'));
const secret = `whsec_${Buffer.from('a secret of some length').toString('base64')}`;

interface SenderOptions {
  readonly rows?: Rows;
  readonly attempts?: number;
  readonly maxMessages?: number;
  readonly timeoutMs?: number;
  readonly firstPauseMs?: number;
  readonly now?: () => number;
  readonly isCurrent?: () => boolean;
}

function webhook(name: string, url: string, more: Partial<Webhook> = {}): Webhook {
  return {
    ...{ name, url: new URL(url), form: 'cloudevents', events: eventKinds, secret },
    ...{ authorization: undefined, ca: undefined, allowPrivateAddress: true, ...more },
  };
}

/** Starts to send, with pauses of milliseconds. */
function startSending(t: TestContext, webhooks: readonly Webhook[], options: SenderOptions = {}) {
  const { attempts = 3, maxMessages = 10_000, timeoutMs = 10_000, ...rest } = options;
  const rows = options.rows ?? openRows(':memory:');
  const counts: Record<string, number> = {};
  const announce = createAnnounce({
    ...{ webhooks, mailAfterMs: undefined, host: 'sluice.test' },
    pageOf: id => `https://sluice.test/view/builds/${id}`,
  });
  const sender = startMessageSender({
    store: rows.messages,
    deliveries: webhooks.map(one =>
      createWebhookDelivery(one, {
        ...{ origin: 'https://sluice.test', connectMs: 5000, timeoutMs, limits: {} },
      }),
    ),
    ...{ isCurrent: () => true, attempts, maxMessages, pollMs: 10, firstPauseMs: 5, ...rest },
    note(target, result, count = 1) {
      counts[`${target} ${result}`] = (counts[`${target} ${result}`] ?? 0) + count;
    },
    log: pino({ level: 'silent' }),
  });
  t.after(async () => {
    await sender.close();
    if (!options.rows) await rows.end();
  });
  const push = (tag: string) =>
    rows.messages.add(
      announce({
        ...{ kind: 'image.pushed', repository: 'team/app', digest, tags: [tag], size: 7 },
        mediaType: 'application/vnd.oci.image.manifest.v1+json',
      }),
    );
  const listed = () => rows.messages.list({ limit: 10_000 });
  const isEmpty = async () => (await listed()).length === 0;
  return { rows, sender, announce, push, listed, isEmpty, counts };
}

const tagsOf = ({ received }: Receiver) =>
  received.map(({ body }) => (body.data as { tags: string[] }).tags[0]);

test('a message is a CloudEvent with a signature that its receiver can check', async t => {
  await using receiver = await startReceiver();
  const authorization = 'Bearer word';
  const { push, announce, rows, isEmpty } = startSending(t, [
    webhook('ci', receiver.url, { authorization }),
  ]);
  await push('v1');
  const reason = '<script>alert(1)</script>\r\nX-Evil: yes';
  await rows.messages.add(
    announce({
      ...{ kind: 'build.ended', id: 'abc_1', image: 'sluice.test/builds:abc', succeeded: false },
      owner: '7',
      ...{ reason, createdAt: 1000, endedAt: 61_500 },
    }),
  );
  await eventually('both arrive', isEmpty);
  const [first, second] = receiver.received;
  assert.ok(first && second);
  const { id, time, sequence, ...event } = first.body;
  assert.deepEqual(event, {
    specversion: '1.0',
    source: 'https://sluice.test',
    type: 'sluice.image.pushed',
    subject: 'team/app:v1',
    datacontenttype: 'application/json',
    data: {
      ...{ host: 'sluice.test', repository: 'team/app', digest, tags: ['v1'], size: 7 },
      mediaType: 'application/vnd.oci.image.manifest.v1+json',
    },
  });
  assert.ok(Math.abs(Date.parse(String(time)) - Date.now()) < 120_000);
  assert.ok(String(sequence) < String(second.body.sequence));
  assert.equal(first.headers['content-type'], 'application/cloudevents+json; charset=utf-8');
  assert.equal(first.headers.authorization, authorization);
  assert.deepEqual(second.body.data, {
    ...{ id: 'abc_1', image: 'sluice.test/builds:abc', succeeded: false, reason, duration: 60.5 },
    ...{ created: '1970-01-01T00:00:01.000Z', ended: '1970-01-01T00:01:01.500Z' },
    page: 'https://sluice.test/view/builds/abc_1',
  });
  const { 'webhook-id': named, 'webhook-timestamp': timestamp } = first.headers;
  assert.equal(named, id);
  const key = Buffer.from('a secret of some length');
  const signed = createHmac('sha256', key).update(`${id}.${timestamp}.${first.text}`);
  assert.equal(first.headers['webhook-signature'], `v1,${signed.digest('base64')}`);
});

test('a receiver of the distribution form gets its envelope', async t => {
  await using receiver = await startReceiver();
  const { push, rows, announce, isEmpty } = startSending(t, [
    webhook('old', receiver.url, { form: 'distribution', secret: undefined }),
  ]);
  await push('v1');
  await rows.messages.add(announce({ kind: 'image.deleted', repository: 'team/app', tag: 'v1' }));
  await eventually('both arrive', isEmpty);
  const [pushed, deleted] = receiver.received.map(
    ({ body }) => (body.events as { action: string; target: object; id: string }[])[0],
  );
  const { headers } = receiver.received[0] ?? assert.fail();
  assert.equal(headers['content-type'], 'application/vnd.docker.distribution.events.v2+json');
  assert.equal(headers['webhook-id'], pushed?.id);
  assert.equal(headers['webhook-signature'], undefined);
  assert.equal(pushed?.action, 'push');
  assert.deepEqual(pushed?.target, {
    ...{ digest, size: 7, length: 7, repository: 'team/app', tag: 'v1' },
    mediaType: 'application/vnd.oci.image.manifest.v1+json',
    url: `https://sluice.test/v2/team/app/manifests/${digest}`,
  });
  assert.equal(deleted?.action, 'delete');
  assert.deepEqual(deleted?.target, { repository: 'team/app', tag: 'v1' });
});

test('a receiver that fails holds no other one up, and gets its messages in order when it is back', async t => {
  await using broken = await startReceiver();
  await using working = await startReceiver();
  broken.answer = response => response.writeHead(500).end('no');
  const names = Array.from({ length: 20 }, (_, at) => `v${at}`);
  const { push, isEmpty, listed, counts } = startSending(
    t,
    [webhook('broken', broken.url), webhook('working', working.url)],
    { attempts: 1000 },
  );
  for (const name of names) await push(name);
  await eventually('the other receiver has all', () => working.received.length === names.length);
  assert.deepEqual(tagsOf(working), names);
  await eventually('several failures', () => (counts['broken failed'] ?? 0) > 5);
  const [{ error } = assert.fail()] = (await listed()).filter(({ attempts }) => attempts > 0);
  assert.equal(error, 'The receiver answered 500');
  const failed = broken.received.length;
  broken.answer = response => response.writeHead(200).end();
  await eventually('it has all', isEmpty);
  const late = new Set(tagsOf(broken).slice(failed));
  assert.deepEqual([...late].toSorted(), names.toSorted());
  const ids = new Map(broken.received.map(({ body, headers }) => [body.id, headers['webhook-id']]));
  assert.equal(ids.size, names.length);
  assert.ok([...ids].every(([id, named]) => id === named));
});

test('a message without attempts stays, can be sent again, and does not stop those behind it', async t => {
  await using receiver = await startReceiver();
  receiver.answer = (response, { text }) =>
    response.writeHead(text.includes('"poison"') ? 400 : 204).end();
  const { push, rows, listed, isEmpty, counts } = startSending(t, [webhook('ci', receiver.url)]);
  await push('poison');
  await push('good');
  await eventually('the poison is dead', async () => (await listed())[0]?.deadAt !== null);
  const [message, ...rest] = await listed();
  assert.equal(rest.length, 0);
  assert.deepEqual([message?.subject, message?.attempts], ['team/app:poison', 3]);
  assert.deepEqual(counts, { 'ci sent': 1, 'ci failed': 2, 'ci dead': 1 });
  receiver.answer = response => response.writeHead(204).end();
  assert.equal(await rows.messages.resend(message?.id as number), true);
  await eventually('it arrives', isEmpty);
});

test('refused messages do not hold up those behind them, and a failing one is not the only one that is tried', async t => {
  await using receiver = await startReceiver();
  receiver.answer = (response, { text }) =>
    response.writeHead(/"(?:bad)/.test(text) ? 422 : 204).end();
  const { push, listed } = startSending(t, [webhook('ci', receiver.url)], {
    attempts: 16,
    firstPauseMs: 600_000,
  });
  for (let at = 0; at < 10; at += 1) await push(`bad${at}`);
  await push('good');
  await eventually('only the refused are left', async () => (await listed()).length === 10);

  await using other = await startReceiver();
  other.answer = (response, { text }) =>
    response.writeHead(text.includes('"bad"') ? 500 : 204).end();
  const second = startSending(t, [webhook('ci', other.url)], { attempts: 16, firstPauseMs: 100 });
  await second.push('bad');
  await second.push('good');
  await eventually('the good one arrives', async () => (await second.listed()).length === 1);
});

test('redirects are not followed, and closed addresses are refused', async t => {
  await using inner = await startReceiver();
  await using outer = await startReceiver();
  outer.answer = response => response.writeHead(307, { location: inner.url }).end();
  const closed = webhook('closed', inner.url, { allowPrivateAddress: false });
  const named = webhook('named', `http://localhost:${inner.port}/`, { allowPrivateAddress: false });
  const { push, listed } = startSending(t, [webhook('outer', outer.url), closed, named], {
    attempts: 1,
  });
  await push('v1');
  await eventually('all are dead', async () => (await listed()).every(({ deadAt }) => deadAt));
  const errors = new Map((await listed()).map(({ target, error }) => [target, error ?? '']));
  assert.match(errors.get('outer') ?? '', /answered 307: redirects are not followed/);
  assert.match(errors.get('closed') ?? '', /closed network address, which is refused/);
  assert.match(errors.get('named') ?? '', /closed network address, which is refused/);
  assert.equal(inner.received.length, 0);
});

test('a receiver that hangs, sends an endless response or breaks off is left in time', async t => {
  await using hanging = await startReceiver();
  await using endless = await startReceiver();
  await using breaking = await startReceiver();
  hanging.answer = () => {};
  let sent = 0;
  endless.answer = response => {
    response.writeHead(200);
    const chunk = Buffer.alloc(64 * 1024);
    const more = () => {
      if (response.destroyed || sent > 100 * 2 ** 20) return;
      sent += chunk.length;
      response.write(chunk, error => (error ? undefined : setImmediate(more)));
    };
    more();
  };
  breaking.answer = response => response.destroy();
  const { push, listed, counts } = startSending(
    t,
    [
      webhook('hanging', hanging.url),
      webhook('endless', endless.url),
      webhook('breaking', breaking.url),
    ],
    { attempts: 2, timeoutMs: 300 },
  );
  for (const name of ['a', 'b', 'c']) await push(name);
  await eventually('the endless one has all', () => counts['endless sent'] === 3);
  assert.ok(sent < 20 * 2 ** 20, `${sent} bytes were read`);
  await eventually('the others are dead', async () =>
    (await listed()).every(({ deadAt }) => deadAt !== null),
  );
  const errors = new Map((await listed()).map(({ target, error }) => [target, error]));
  assert.equal(errors.get('hanging'), 'The receiver did not answer in time');
  assert.match(errors.get('breaking') ?? '', /^The receiver cannot be reached/);
});

test('events of one moment arrive once and in order', async t => {
  await using receiver = await startReceiver();
  const { push, isEmpty } = startSending(t, [webhook('ci', receiver.url)]);
  const names = Array.from({ length: 300 }, (_, at) => `v${at}`);
  await Promise.all(names.map(push));
  await eventually('all arrive', isEmpty);
  assert.deepEqual(tagsOf(receiver), names);
});

test('too many messages are dropped and counted; those of a receiver that works still arrive', async t => {
  await using broken = await startReceiver();
  broken.answer = response => response.writeHead(503).end();
  const { push, listed, counts } = startSending(t, [webhook('broken', broken.url)], {
    ...{ attempts: 1000, maxMessages: 10 },
  });
  await Promise.all(Array.from({ length: 50 }, (_, at) => push(`v${at}`)));
  await eventually('forty are dropped', () => counts['broken dropped'] === 40);
  const left = await listed();
  assert.deepEqual(
    left.map(({ subject }) => subject),
    Array.from({ length: 10 }, (_, at) => `team/app:v${9 - at}`),
  );
});

test('ten thousand messages of one user do not hold up those of another one', async t => {
  await using receiver = await startReceiver();
  const rows = openRows(':memory:');
  t.after(() => rows.end());
  const { announce } = startSending(t, [webhook('ci', receiver.url)], {
    rows,
    maxMessages: 20_000,
  });
  const pushed = (repository: string, tag: string) =>
    announce({
      ...{ kind: 'image.pushed', repository, digest, tags: [tag], size: 7 },
      mediaType: 'application/vnd.oci.image.manifest.v1+json',
    });
  const many = Array.from({ length: 10_000 }, (_, at) => pushed('users/ada-1/app', `v${at}`));
  await rows.messages.add(many.flat());
  await eventually('they are being sent', () => receiver.received.length > 0);
  const begun = receiver.received.length;
  await rows.messages.add(pushed('users/bo-2/app', 'other'));
  await eventually('that of the other user is there', () => tagsOf(receiver).includes('other'));
  const before = tagsOf(receiver).indexOf('other') - begun;
  // Those that were read at once, and those that were sent while it was written.
  assert.ok(before < 200, `${before} messages were sent before it`);
});

test('a stop does not wait for a delivery that does not end, and its message stays', async t => {
  const rows = openRows(':memory:');
  t.after(() => rows.end());
  const begun = Promise.withResolvers<void>();
  const sender = startMessageSender({
    store: rows.messages,
    deliveries: [
      {
        name: 'ci',
        async send() {
          begun.resolve();
          await new Promise(() => {});
        },
        async close() {},
      },
    ],
    ...{ isCurrent: () => true, attempts: 3, maxMessages: 10, pollMs: 10, note() {} },
    log: pino({ level: 'silent' }),
  });
  const about = { kind: 'k', subject: 's', createdAt: 1, body: '{}' };
  await rows.messages.add([{ event: 'a', target: 'ci', sender: '7', ...about }]);
  await begun.promise;
  await sender.close();
  const [left] = await rows.messages.list({ limit: 1 });
  assert.deepEqual([left?.event, left?.attempts], ['a', 0]);
});

test('a server that does not lead sends nothing, and the next leader goes on', async t => {
  await using receiver = await startReceiver();
  const rows = openRows(':memory:');
  t.after(() => rows.end());
  let leads = true;
  const first = startSending(t, [webhook('ci', receiver.url)], { rows, isCurrent: () => leads });
  // The lead is lost while the receiver has the first message, before its row is removed.
  receiver.answer = response => {
    leads = false;
    response.writeHead(204).end();
  };
  for (const name of ['a', 'b', 'c']) await first.push(name);
  await eventually('one arrives', () => receiver.received.length === 1);
  await eventually('it is removed', async () => (await first.listed()).length === 2);
  await first.sender.close();
  assert.equal(receiver.received.length, 1);
  const next = startSending(t, [webhook('ci', receiver.url)], { rows });
  await eventually('the others arrive', next.isEmpty);
  assert.deepEqual(tagsOf(receiver), ['a', 'b', 'c']);
});

test('a message that cannot be removed is sent again with its id, less and less often', async t => {
  await using receiver = await startReceiver();
  const rows = openRows(':memory:');
  t.after(() => rows.end());
  const { remove } = rows.messages;
  let refused = 0;
  const messages = {
    ...rows.messages,
    async remove(id: number) {
      refused += 1;
      if (refused <= 3) throw new Error('the disk is full');
      await remove(id);
    },
  };
  const { push, isEmpty } = startSending(t, [webhook('ci', receiver.url)], {
    rows: { ...rows, messages },
  });
  await push('v1');
  await eventually('it is removed', isEmpty);
  assert.equal(receiver.received.length, 4);
  assert.equal(new Set(receiver.received.map(({ body }) => body.id)).size, 1);
  assert.equal(new Set(receiver.received.map(({ text }) => text)).size, 1);
});

test('a clock that is set back does not hold messages', async t => {
  await using receiver = await startReceiver();
  receiver.answer = response => response.writeHead(500).end();
  let now = Date.now() + 10 * 365 * 86_400_000;
  const { push, isEmpty, counts } = startSending(t, [webhook('ci', receiver.url)], {
    ...{ now: () => now, attempts: 100 },
  });
  await push('v1');
  await eventually('it fails', () => (counts['ci failed'] ?? 0) > 0);
  now = Date.now();
  receiver.answer = response => response.writeHead(204).end();
  await eventually('it arrives', isEmpty);
});

test('a stop while a receiver hangs ends at once and counts no attempt', async t => {
  await using receiver = await startReceiver();
  receiver.answer = () => {};
  const { push, listed, sender } = startSending(t, [webhook('ci', receiver.url)]);
  await push('v1');
  await eventually('it is on its way', () => receiver.received.length === 1);
  const began = performance.now();
  await sender.close();
  assert.ok(performance.now() - began < 5000);
  assert.deepEqual(
    (await listed()).map(({ attempts }) => attempts),
    [0],
  );
});
