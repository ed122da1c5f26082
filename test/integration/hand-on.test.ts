/** Requests that a replica hands on, whatever clients send, and while the lead changes. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type IncomingHttpHeaders, request as sendRequest } from 'node:http';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { handedOnHeaders } from '../../src/http/callers/handed-on.ts';
import { createCurrentLeader } from '../../src/server/replicas/current-leader.ts';
import { createHandOn } from '../../src/server/replicas/hand-on.ts';
import type { OrderedBlobs } from '../../src/server/replicas/ordered-blobs.ts';
import { eventually } from '../world/eventually.ts';
import { listenStarting, listenWith } from '../world/listening-entry.ts';

const proof = 'the replicas of a site know this';

test('a body waits for the next leader when the former one does not lead any more', async () => {
  const leader = createCurrentLeader();
  const handOn = createHandOn(leader, proof, { accepts: () => false } as unknown as OrderedBlobs);
  using next = await listenWith(async (request, response) => {
    response.end(`got ${await text(request)}`);
  });
  let asked = 0;
  using former = await listenWith(
    (_request, response) => {
      asked += 1;
      // At first nobody knows the next one, and the request must wait.
      if (asked === 2) leader.set(next.url);
      response.writeHead(503, { [handedOnHeaders.proof]: 'follows' }).end();
    },
    { refusesBody: () => true },
  );
  using front = await listenWith((request, response) => {
    handOn.respond(request, response).catch(() => response.writeHead(503).end());
  });
  leader.set(former.url);
  const reply = await fetch(front.url, { method: 'POST', body: 'what can be sent only once' });
  assert.deepEqual(
    [reply.status, await reply.text(), asked],
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
  const responded = once(asking, 'response');
  await arrived;
  replica.entries.open({
    respond: async (_request, response) => void response.writeHead(503).end(),
    handleUpgrade: () => false,
    refusesBody: () => true,
  });
  const [reply] = await responded;
  assert.deepEqual([reply.statusCode, continues], [503, 0]);
});

/** What the leader has seen of a request. */
interface Seen {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** Starts a leader and a replica that hands requests on to it, and answers `/asked` by asking the leader. */
async function startPair(respondEarly = false) {
  const leader = createCurrentLeader();
  const handOn = createHandOn(leader, proof, { accepts: () => false } as unknown as OrderedBlobs);
  const seen: Seen[] = [];
  const leads = await listenWith(async (request, response) => {
    const { method = '', url = '', headers } = request;
    if (respondEarly) return void response.end('early');
    seen.push({ method, url, headers, body: await text(request) });
    response.end(url);
  });
  const front = await listenWith(async (request, response) => {
    if (request.url !== '/asked') return handOn.respond(request, response);
    const reply = await handOn.ask(request, 5000);
    response.end(reply?.body);
  });
  leader.set(leads.url);
  return {
    seen,
    leads,
    front,
    /** Sends a request, and after its response another one on the same connection. Returns the second answer. */
    async exchange(one: string, other: string): Promise<string> {
      const socket = connect(Number(front.url.port), '127.0.0.1');
      socket.write(one);
      await once(socket, 'data');
      socket.write(other);
      return text(socket);
    },
    [Symbol.dispose]() {
      handOn.close();
      front[Symbol.dispose]();
      leads[Symbol.dispose]();
    },
  };
}

const next = 'GET /next HTTP/1.1\r\nhost: front\r\nconnection: close\r\n\r\n';
const hidden = 'PUT /hidden HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n';

for (const method of ['GET', 'HEAD', 'DELETE', 'OPTIONS', 'POST']) {
  for (const named of [
    'content-length',
    'transfer-encoding',
    'x-forwarded-for, host, content-length',
  ]) {
    test(`the body of ${method} with "Connection: ${named}" is not a request of its own`, async () => {
      using pair = await startPair();
      const isChunked = named === 'transfer-encoding';
      const frame = isChunked ? 'transfer-encoding: chunked' : `content-length: ${hidden.length}`;
      const body = isChunked ? `${hidden.length.toString(16)}\r\n${hidden}\r\n0\r\n\r\n` : hidden;
      const head = `${method} /shown HTTP/1.1\r\nhost: front\r\nx-forwarded-for: 192.0.2.1`;
      const shown = `${head}\r\nconnection: ${named}\r\n${frame}\r\n\r\n${body}`;
      assert.match(await pair.exchange(shown, next), /\/next$/);
      assert.deepEqual(
        pair.seen.map(({ url, body }) => [url, body]),
        [
          ['/shown', method === 'GET' || method === 'HEAD' ? '' : hidden],
          ['/next', ''],
        ],
      );
      const [{ headers } = assert.fail()] = pair.seen;
      assert.deepEqual([headers.host, headers['x-forwarded-for']], ['front', '192.0.2.1']);
    });
  }
}

test('a question to the leader takes nothing from the next request', async () => {
  using pair = await startPair();
  const asking = `GET /asked HTTP/1.1\r\nhost: front\r\ncontent-length: 5\r\n\r\nbytes`;
  assert.match(await pair.exchange(asking, next), /\/next$/);
  assert.deepEqual(
    pair.seen.map(({ url }) => url),
    ['/asked', '/next'],
  );
});

test('no header of an ordinary request makes its connection to the leader a tunnel', async () => {
  using pair = await startPair();
  const shown = 'GET /shown HTTP/1.1\r\nhost: front\r\nupgrade: websocket\r\n\r\n';
  assert.match(await pair.exchange(shown, next), /\/next$/);
  assert.equal(pair.seen[0]?.headers.upgrade, undefined);
});

test('an answer before the body leaves no connection to the leader behind', async () => {
  using pair = await startPair(true);
  const asking = 'POST /shown HTTP/1.1\r\nhost: front\r\ncontent-length: 10\r\n\r\n';
  const { port } = pair.front.url;
  const socket = connect(Number(port), '127.0.0.1');
  socket.write(asking);
  assert.match(await text(socket), /early$/);
  const connections = promisify(pair.leads.server.getConnections.bind(pair.leads.server));
  await eventually('the connection has ended', async () => (await connections()) === 0);
});
