/** Bodies of documents that their reader leaves, with a server on this machine. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { defaultRegistrySettings } from '../../src/upstream/registry-settings.ts';
import { closedAddressIn } from '../../src/upstream/transport/address-guard.ts';
import { readErrorWords } from '../../src/upstream/transport/failure.ts';
import { createTransport } from '../../src/upstream/transport/transport.ts';
import { readAll, type UpstreamResponse } from '../../src/upstream/transport/upstream-response.ts';

const connections = 2;
const page = `<title>Too much</title>${'<p>Sorry.</p>'.repeat(100_000)}`;

async function startServer(listener: RequestListener) {
  const server = createServer(listener).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  const timeouts = { connectMs: 5000, headersMs: 5000, idleMs: 5000 };
  const transport = createTransport(new Map(), timeouts, [host], { connections });
  return {
    get: (path: string) =>
      transport.send({ url: new URL(path, `http://${host}`), method: 'GET', headers: {} }),
    async [Symbol.asyncDispose]() {
      await transport.close();
      server.closeAllConnections();
      server.close();
    },
  };
}

const leavings: Readonly<Record<string, (response: UpstreamResponse) => Promise<unknown>>> = {
  'after its first bytes': async response => {
    const { quote } = await readErrorWords(response, undefined);
    assert.equal(quote, 'Too much');
  },
  'because it is too long': async response => {
    await assert.rejects(readAll(response.body, 1000, 'The page'), /larger than the 1000 bytes/);
  },
  'without reading it': async response => response.body.destroy(),
  'while it waits for the next bytes': async response => {
    const chunk = await response.body.read();
    chunk?.release();
    const next = response.body.read().catch(() => null);
    response.body.destroy();
    await next;
  },
};

for (const [how, leave] of Object.entries(leavings)) {
  test(`a long chunked body gives its connection back to others: its reader leaves ${how}`, {
    timeout: 20_000,
  }, async () => {
    await using server = await startServer((request, response) => {
      if (request.url === '/') return response.end('here');
      response.writeHead(500, { 'content-type': 'text/html' });
      response.flushHeaders();
      return response.end(page);
    });
    for (let at = 0; at <= connections; at += 1) await leave(await server.get('/page'));
    const { body } = await server.get('/');
    assert.equal((await readAll(body, 100, 'The answer')).toString(), 'here');
  });
}

test('the connection of a short body is used again', async () => {
  const ports = new Set<number | undefined>();
  await using server = await startServer((request, response) => {
    ports.add(request.socket.remotePort);
    response.writeHead(404).end('there is nothing');
  });
  for (let at = 0; at < 3; at += 1) {
    await readErrorWords(await server.get('/'), undefined);
    (await server.get('/')).body.destroy();
  }
  assert.ok(ports.size <= connections, `${ports.size} connections`);
});

test('a listed host is exempt from the address guard for itself and for other listed hosts only', async () => {
  const server = createServer((_request, response) => response.end('here')).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const settings = { ...defaultRegistrySettings, plainHttp: true, allowPrivateAddress: true };
  const hosts = [`127.0.0.1:${port}`, `localhost:${port}`];
  const registries = new Map([...hosts, 'listed.test', 'docker.io'].map(host => [host, settings]));
  const timeouts = { connectMs: 5000, headersMs: 5000, idleMs: 5000 };
  const transport = createTransport(registries, timeouts);
  try {
    for (const host of hosts) {
      const url = new URL(`http://${host}/path`);
      const requestFrom = (from?: string) => ({
        ...({ url, method: 'GET', headers: {} } as const),
        from: from === undefined ? undefined : new URL(from),
      });
      // These keep their connections open, and the ones after them must not use them.
      const welcome = [undefined, url.origin, 'http://listed.test', 'https://registry-1.docker.io'];
      for (const from of welcome) {
        const request = requestFrom(from);
        for (const send of [transport.send, transport.sendBlob]) {
          assert.equal((await readAll((await send(request)).body, 100, 'It')).toString(), 'here');
        }
        await transport.checkReach(request);
      }
      const strange = requestFrom('https://evil.example');
      for (const send of [transport.send, transport.sendBlob, transport.checkReach]) {
        await assert.rejects(send(strange), error => closedAddressIn(error) !== undefined);
      }
    }
  } finally {
    await transport.close();
    server.closeAllConnections();
    server.close();
  }
});
