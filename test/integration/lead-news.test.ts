/** How a former leader hears who leads, and whom it believes. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { handedOnHeaders } from '../../src/http/index.ts';
import { createLeadNews } from '../../src/server/replicas/lead-news.ts';

const key = randomBytes(32);
const leader = new URL('http://127.0.0.1:9/');

/** A replica that takes requests, and the news that its requests contain. */
async function startFormer(statuses: readonly number[]) {
  const received: IncomingMessage[] = [];
  const server = createServer((request, response) => {
    received.push(request);
    response.writeHead(statuses[received.length - 1] ?? 204).end();
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
  return {
    ...{ address, received },
    async [Symbol.asyncDispose]() {
      server.close();
      server.closeAllConnections();
    },
  };
}

const withNews = (news: unknown) =>
  ({ headers: { [handedOnHeaders.leads]: news } }) as unknown as IncomingMessage;

test('a former leader gets the news until it accepts them, and believes the keys of its site only', async () => {
  await using former = await startFormer([409, 204]);
  const signal = new AbortController().signal;
  const began = Date.now();
  await createLeadNews(key, leader).tell(former.address, began, signal);
  assert.equal(former.received.length, 2);
  const [request] = former.received;
  assert.ok(request);
  const own = createLeadNews(key, former.address);
  assert.deepEqual(own.read(request), { leader, time: began });
  // They hold for this replica, for a while, and contain nothing with which somebody could hand requests on.
  assert.deepEqual(
    Object.keys(request.headers).sort(),
    ['connection', 'content-length', 'host', handedOnHeaders.leads].sort(),
  );
  const elsewhere = createLeadNews(key, new URL('http://127.0.0.1:8/'));
  assert.equal(elsewhere.read(request), undefined);
  const later = createLeadNews(key, former.address, () => Date.now() + 16 * 60_000);
  assert.equal(later.read(request), undefined);
  const ofOthers = createLeadNews(randomBytes(32), former.address);
  assert.equal(ofOthers.read(request), undefined);
  const [, time, mac] = String(request.headers[handedOnHeaders.leads]).split(' ');
  for (const forged of [
    ...[
      '',
      ' ',
      'x',
      `http://192.0.2.1/ ${time} ${mac}`,
      `${leader.href} ${Number(time) + 1} ${mac}`,
    ],
    ...[`${leader.href} NaN ${mac}`, `${leader.href} ${time}`, `${leader.href} ${time} ${mac}x`],
    ...[`${leader.href} ${time} ${'x'.repeat(5000)}`, undefined, ['a', 'b']],
  ]) {
    assert.equal(own.read(withNews(forged)), undefined, String(forged));
  }
});

test('a former leader that has ended, or hangs, delays nobody', async () => {
  const closing = new AbortController();
  const news = createLeadNews(key, leader);
  // Nobody listens there.
  const told = news.tell(new URL('http://127.0.0.1:1/'), Date.now(), closing.signal);
  closing.abort();
  await told;
  // It is this replica.
  await news.tell(leader, Date.now(), new AbortController().signal);
});
