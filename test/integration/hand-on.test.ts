/** A request with a body that reaches a replica whose lead has just ended, or that has just started. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type RequestListener, request as sendRequest } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { pino } from 'pino';
import { handedOnHeaders } from '../../src/http/callers/handed-on.ts';
import { holdEntries } from '../../src/server/life/entries.ts';
import { createCurrentLeader } from '../../src/server/replicas/current-leader.ts';
import { createHandOn } from '../../src/server/replicas/hand-on.ts';
import type { OrderedBlobs } from '../../src/server/replicas/ordered-blobs.ts';

const proof = 'the replicas of a site know this';

/** Listens with entries that are not open yet. */
async function listenStarting() {
  const server = createServer();
  const entries = holdEntries(server, pino({ level: 'silent' }));
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    server,
    entries,
    url: new URL(`http://127.0.0.1:${port}`),
    [Symbol.dispose]() {
      server.closeAllConnections();
      server.close();
    },
  };
}

/** Listens with the entry of a replica. */
async function listen(answer: RequestListener, refusesBody?: () => boolean) {
  const starting = await listenStarting();
  starting.entries.open({
    answer: async (request, response) => void answer(request, response),
    handleUpgrade: () => false,
    ...(refusesBody ? { refusesBody } : {}),
  });
  return starting;
}

test('a body waits for the next leader when the former one does not lead any more', async () => {
  const leader = createCurrentLeader();
  const handOn = createHandOn(leader, proof, { accepts: () => false } as unknown as OrderedBlobs);
  using next = await listen(async (request, response) => {
    response.end(`got ${await text(request)}`);
  });
  let asked = 0;
  using former = await listen(
    (_request, response) => {
      asked += 1;
      // At first nobody knows the next one, and the request must wait.
      if (asked === 2) leader.set(next.url);
      response.writeHead(503, { [handedOnHeaders.proof]: 'follows' }).end();
    },
    () => true,
  );
  using front = await listen((request, response) => {
    handOn.answer(request, response).catch(() => response.writeHead(503).end());
  });
  leader.set(former.url);
  const answer = await fetch(front.url, { method: 'POST', body: 'what can be sent only once' });
  assert.deepEqual(
    [answer.status, await answer.text(), asked],
    [200, 'got what can be sent only once', 2],
  );
  handOn.close();
});

test('a replica that has just started asks for no body before it knows its role', async () => {
  using replica = await listenStarting();
  const arrived = once(replica.server, 'checkContinue');
  const asking = sendRequest(replica.url, {
    method: 'PUT',
    headers: { expect: '100-continue', 'content-length': 5 },
  });
  let continues = 0;
  asking.on('continue', () => {
    continues += 1;
    asking.end('bytes');
  });
  asking.flushHeaders();
  const answered = once(asking, 'response');
  await arrived;
  replica.entries.open({
    answer: async (_request, response) => void response.writeHead(503).end(),
    handleUpgrade: () => false,
    refusesBody: () => true,
  });
  const [answer] = await answered;
  assert.deepEqual([answer.statusCode, continues], [503, 0]);
});
