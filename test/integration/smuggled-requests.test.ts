/** Raw requests at a replica that try to become two requests on its connection to the leader. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { Agent, type IncomingMessage, request } from 'node:http';
import { connect, createServer, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { after, before, test } from 'node:test';
import { rawResponse } from '../../src/foundation/responses.ts';
import { createCurrentLeader } from '../../src/server/replicas/current-leader.ts';
import { createHandOn, handOnUpgrade } from '../../src/server/replicas/hand-on.ts';
import type { OrderedBlobs } from '../../src/server/replicas/ordered-blobs.ts';
import { eventually } from '../world/eventually.ts';
import { type Listening, listenWith } from '../world/listening-entry.ts';
import { requestsIn } from './requests-in.ts';

const proof = 'the replicas of a site know this';
const leader = createCurrentLeader();
const handOn = createHandOn(leader, proof, { accepts: () => false } as unknown as OrderedBlobs);
/** What the replica, and then the leader, took for a request. */
let shown: string[] = [];
let seen: string[] = [];
/** What flowed to the leader, by connection. */
let wires: Buffer[][] = [];
const links = new Set<Socket>();
let leads: Listening;
let front: Listening;
const link = createServer(from => {
  const wire: Buffer[] = [];
  wires.push(wire);
  const to = connect(Number(leads.url.port), '127.0.0.1');
  for (const socket of [from, to]) {
    links.add(socket);
    socket.on('error', () => {});
    socket.on('close', () => {
      links.delete(socket);
      from.destroy();
      to.destroy();
    });
  }
  from.on('data', bytes => void wire.push(bytes)).pipe(to);
  to.pipe(from);
});

before(async () => {
  leads = await listenWith(
    async (request, response) => {
      seen.push(`${request.method} ${request.url}`);
      await text(request).catch(() => {});
      response.end(`for ${request.url}`);
    },
    {
      handleUpgrade(request, socket) {
        seen.push(`${request.method} ${request.url}`);
        socket.end(rawResponse(400, 'no socket'));
        return true;
      },
    },
  );
  front = await listenWith(
    async (request, response) => {
      shown.push(`${request.method} ${request.url}`);
      await handOn.respond(request, response).catch(() => response.destroy());
    },
    {
      handleUpgrade(request, socket, head) {
        shown.push(`${request.method} ${request.url}`);
        handOnUpgrade(leader, handOn, request, socket, head);
        return true;
      },
    },
  );
  await once(link.listen(0, '127.0.0.1'), 'listening');
  leader.set(new URL(`http://127.0.0.1:${(link.address() as { port: number }).port}`));
});

after(() => {
  handOn.close();
  for (const socket of links) socket.destroy();
  link.close();
  front[Symbol.dispose]();
  leads[Symbol.dispose]();
});

/** Sends bytes to the replica, and returns when it has nothing more to say about them. */
async function attack(bytes: string): Promise<void> {
  const socket = connect(Number(front.url.port), '127.0.0.1').on('error', () => {});
  socket.write(bytes, 'latin1');
  let answer = '';
  socket.on('data', more => {
    answer += more.toString('latin1');
  });
  const settled = once(socket, 'close');
  // The leader waits for the rest of a body that its client aborts.
  const isOver = async () => answer !== '' || socket.closed || seen.length > 0;
  await eventually('the replica has answered, or handed a part on', isOver);
  // What follows the first answer follows at once.
  socket.end();
  const timer = setTimeout(() => socket.destroy(), 50);
  await settled.catch(() => {});
  clearTimeout(timer);
}

/** Sends an ordinary request of another client, which takes the connection that was used last. */
async function askAsVictim(path: string): Promise<string> {
  const socket = connect(Number(front.url.port), '127.0.0.1');
  socket.write(`GET ${path} HTTP/1.1\r\nhost: front\r\nconnection: close\r\n\r\n`);
  return text(socket);
}

/** Checks that the leader took each request of the replica for one request, and answered the next client's. */
async function assertNothingPasses(bytes: string): Promise<void> {
  shown = [];
  seen = [];
  wires = [];
  for (const socket of links) socket.destroy();
  await attack(bytes);
  const victims = ['/victim-1', '/victim-2'];
  for (const path of victims) {
    assert.match(await askAsVictim(path), new RegExp(`for ${path}$`), JSON.stringify(bytes));
  }
  // A request that its client aborted may have reached only the replica.
  const expected = shown.filter(one => seen.includes(one));
  assert.deepEqual(seen, expected, JSON.stringify(bytes));
  assert.deepEqual(seen.slice(-2), ['GET /victim-1', 'GET /victim-2']);
  // A stricter reader of the bytes, such as a proxy between both, sees the same ones.
  const onWires = wires.flatMap(wire => requestsIn(Buffer.concat(wire)));
  assert.deepEqual(onWires.toSorted(), seen.toSorted(), JSON.stringify(bytes));
}

const hidden = 'GET /hidden HTTP/1.1\r\nhost: x\r\n\r\n';
const put = 'PUT /hidden HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n';
const chunk = (body: string) => `${body.length.toString(16)}\r\n${body}\r\n`;
const head = (first: string, ...lines: string[]) =>
  `${[first, 'host: front', ...lines].join('\r\n')}\r\n\r\n`;

const attacks: Record<string, string> = {
  'a length and chunks': `${head('POST /a HTTP/1.1', 'content-length: 4', 'transfer-encoding: chunked')}${chunk(hidden)}0\r\n\r\n`,
  'two lengths': `${head('POST /a HTTP/1.1', 'content-length: 0', `content-length: ${hidden.length}`)}${hidden}`,
  'a list of lengths': `${head('POST /a HTTP/1.1', `content-length: ${hidden.length}, ${hidden.length}`)}${hidden}`,
  'a signed length': `${head('POST /a HTTP/1.1', 'content-length: +4')}abcd${hidden}`,
  'a length with zeros': `${head('POST /a HTTP/1.1', `content-length: 000${put.length}`)}${put}`,
  'a length of 2^64': `${head('POST /a HTTP/1.1', 'content-length: 18446744073709551620')}abcd${hidden}`,
  'an empty length': `${head('POST /a HTTP/1.1', 'content-length: ')}${hidden}`,
  'chunks, written as a list': `${head('POST /a HTTP/1.1', 'transfer-encoding: gzip, chunked')}${chunk(put)}0\r\n\r\n`,
  'chunks, then an unknown coding': `${head('POST /a HTTP/1.1', 'transfer-encoding: chunked, x')}${chunk(put)}0\r\n\r\n`,
  'chunks twice': `${head('POST /a HTTP/1.1', 'transfer-encoding: chunked', 'transfer-encoding: chunked')}${chunk(put)}0\r\n\r\n`,
  'chunks after a tab': `${head('POST /a HTTP/1.1', 'transfer-encoding:\tchunked', 'content-length: 5')}${chunk(put)}0\r\n\r\n`,
  'chunks in another case': `${head('POST /a HTTP/1.1', 'Transfer-Encoding: cHuNkEd')}${chunk(put)}0\r\n\r\n`,
  'an unknown coding alone': `${head('POST /a HTTP/1.1', 'transfer-encoding: identity')}${hidden}`,
  'chunks of HTTP/1.0': `${head('POST /a HTTP/1.0', 'transfer-encoding: chunked', 'connection: keep-alive')}${chunk(put)}0\r\n\r\n`,
  'a size of a chunk with an extension': `${head('POST /a HTTP/1.1', 'transfer-encoding: chunked')}5;a="\r\n\r\n${hidden}"\r\nabcde\r\n0\r\n\r\n`,
  'a line feed alone after a size': `${head('POST /a HTTP/1.1', 'transfer-encoding: chunked')}2;\nxx\r\n0\r\n\r\n${hidden}`,
  'a size beyond 64 bits': `${head('POST /a HTTP/1.1', 'transfer-encoding: chunked')}10000000000000005\r\nabcde\r\n0\r\n\r\n`,
  trailers: `${head('POST /a HTTP/1.1', 'trailer: content-length', 'transfer-encoding: chunked')}${chunk('abc')}0\r\ncontent-length: 100\r\ntransfer-encoding: chunked\r\n\r\n`,
  'a request as trailer': `${head('POST /a HTTP/1.1', 'transfer-encoding: chunked')}0\r\n${hidden}`,
  'a folded header': head('GET /a HTTP/1.1', 'x-one: two', '  content-length: 100'),
  'a folded coding': `${head('POST /a HTTP/1.1', 'transfer-encoding:', ' chunked')}${chunk(put)}0\r\n\r\n`,
  'a space before the colon': `${head('POST /a HTTP/1.1', 'transfer-encoding : chunked')}${chunk(put)}0\r\n\r\n`,
  'a name with a control character': head('GET /a HTTP/1.1', 'transfer\u000bencoding: chunked'),
  'a name with an odd character': head(
    'GET /a HTTP/1.1',
    'content_length: 100',
    "x!#$%&'*.^`|~: y",
  ),
  'a value with a line feed': head('GET /a HTTP/1.1', `x: y\n${hidden}`),
  'a value with a carriage return': head('GET /a HTTP/1.1', 'x: y\rcontent-length: 100'),
  'a value with NUL': head('GET /a HTTP/1.1', 'x: y\u0000z'),
  'a value beyond ASCII': head('GET /a HTTP/1.1', 'x: \u008d\u008a\u00ff'),
  'an empty name': head('GET /a HTTP/1.1', ': chunked'),
  'a header of replicas': head(
    'GET /a HTTP/1.1',
    'sluice-replica: guess',
    'sluice-peer: 127.0.0.1',
    'connection: sluice-replica',
  ),
  'a target in absolute form': head('GET http://other/a HTTP/1.1'),
  'a target with a user': head('GET http://user@other:1/a HTTP/1.1'),
  'a target with a tab': head('GET /a\tb HTTP/1.1'),
  'a target beyond ASCII': head('GET /\u008d\u008a\u00e9 HTTP/1.1'),
  'a target that is a star': head('OPTIONS * HTTP/1.1'),
  'a target without a slash': head('GET a HTTP/1.1'),
  'CONNECT with a request inside': `${head('CONNECT leader:9090 HTTP/1.1')}${hidden}`,
  'CONNECT with chunks': `${head('CONNECT leader:9090 HTTP/1.1', 'transfer-encoding: chunked')}${chunk(hidden)}0\r\n\r\n`,
  'an upgrade with a body': `${head('POST /a HTTP/1.1', 'connection: upgrade', 'upgrade: websocket', `content-length: ${hidden.length}`)}${hidden}`,
  'an upgrade with chunks': `${head('GET /a HTTP/1.1', 'connection: upgrade', 'upgrade: h2c', 'transfer-encoding: chunked')}${chunk(hidden)}0\r\n\r\n`,
  'an upgrade that ends in a request': `${head('DELETE /a HTTP/1.1', 'connection: upgrade, content-length', 'upgrade: websocket')}${hidden}`,
  'the preface of HTTP/2': `PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n${hidden}`,
  'Expect without a body': head('GET /a HTTP/1.1', 'expect: 100-continue'),
  'Expect with a body that does not wait': `${head('POST /a HTTP/1.1', 'expect: 100-continue', `content-length: ${put.length}`)}${put}`,
  'an unknown Expect': `${head('POST /a HTTP/1.1', 'expect: everything', `content-length: ${put.length}`)}${put}`,
  'Expect named in Connection': `${head('POST /a HTTP/1.1', 'expect: 100-continue', 'connection: expect', `content-length: ${put.length}`)}${put}`,
  'a body of GET': `${head('GET /a HTTP/1.1', `content-length: ${put.length}`)}${put}`,
  'chunks of HEAD': `${head('HEAD /a HTTP/1.1', 'transfer-encoding: chunked')}${chunk(put)}0\r\n\r\n`,
  'chunks of TRACE': `${head('TRACE /a HTTP/1.1', 'transfer-encoding: chunked')}${chunk(put)}0\r\n\r\n`,
  'a method with a space': head('GET  /a HTTP/1.1'),
  'a method of WebDAV with a body': `${head('PROPFIND /a HTTP/1.1', `content-length: ${put.length}`)}${put}`,
  'a method of WebDAV without a body': head('PROPFIND /a HTTP/1.1'),
  'a body that its client aborts': `${head('POST /a HTTP/1.1', 'content-length: 4096')}${hidden}`,
  'chunks that their client aborts': `${head('POST /a HTTP/1.1', 'transfer-encoding: chunked')}1000\r\n${hidden}`,
  'two requests at once': `${head('POST /a HTTP/1.1', 'content-length: 3')}abc${head('GET /b HTTP/1.1')}`,
  'line feeds alone': 'GET /a HTTP/1.1\nhost: front\ncontent-length: 100\n\n',
  'lines before the request': `\r\n\r\n${head('GET /a HTTP/1.1')}`,
  'no host': 'GET /a HTTP/1.0\r\nconnection: keep-alive\r\n\r\n',
  'HTTP/0.9': 'GET /a\r\n\r\n',
  'another version': head('GET /a HTTP/1.2'),
};

/** A request that a replica hands on, as the leader gets it. */
const handed = (...lines: string[]) => head('POST /handed HTTP/1.1', ...lines);

test('the leader takes nothing after a body for another request', async () => {
  seen = [];
  wires = [];
  const { port } = front.url;
  const agent = new Agent({ keepAlive: true });
  for (const path of ['/one', '/two']) {
    const asking = request({ port, path, agent, method: 'POST', headers: { 'content-length': 4 } });
    asking.end('body');
    const [response] = (await once(asking, 'response')) as [IncomingMessage];
    assert.equal(await text(response), `for ${path}`);
    // The client keeps its own connection.
    assert.equal(response.headers.connection, 'keep-alive');
  }
  agent.destroy();
  assert.equal(wires.length, 2, 'each has its own connection');
  for (const wire of wires) assert.match(Buffer.concat(wire).toString(), /connection: close\r\n/i);
  // A replica that frames a body wrongly lets the rest of it follow.
  seen = [];
  for (const frame of ['content-length: 4', 'transfer-encoding: chunked']) {
    const body = frame.endsWith('4') ? 'body' : `${chunk('body')}0\r\n\r\n`;
    const socket = connect(Number(leads.url.port), '127.0.0.1');
    socket.write(`${handed(frame, 'connection: close')}${body}${hidden}`);
    await text(socket);
  }
  assert.deepEqual(seen, ['POST /handed', 'POST /handed']);
});

for (const [name, bytes] of Object.entries(attacks)) {
  test(`one request stays one: ${name}`, () => assertNothingPasses(bytes));
}
