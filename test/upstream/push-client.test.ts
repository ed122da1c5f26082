import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { Fault } from '../../src/foundation/fault.ts';
import { noRemoteHealth } from '../../src/foundation/telemetry/remote-health.ts';
import { digestOf } from '../../src/oci/digest.ts';
import { documentOf } from '../../src/oci/manifest.ts';
import { mediaTypes } from '../../src/oci/media-type.ts';
import { sourceOfBytes } from '../../src/storage/content/byte-source.ts';
import type { Access } from '../../src/upstream/access.ts';
import { createAuthorizer } from '../../src/upstream/auth/authorizer.ts';
import { createExchange } from '../../src/upstream/exchange.ts';
import { createPushClient, pushingTo } from '../../src/upstream/push-client.ts';
import { createRegistryClient } from '../../src/upstream/registry-client.ts';
import { defaultRegistrySettings, endpointOf } from '../../src/upstream/registry-settings.ts';
import {
  createTransport,
  type HttpRequest,
  type Transport,
} from '../../src/upstream/transport/transport.ts';
import { assertBytes } from '../world/assert-bytes.ts';
import { eventually } from '../world/eventually.ts';
import { type Registry, startRegistry } from '../world/registry.ts';

const retry = { attempts: 2, firstDelayMs: 10, longestDelayMs: 20 };

/** Clients of registries at plain addresses of this machine. */
function clientsOf(...hosts: string[]) {
  const settings = {
    ...defaultRegistrySettings,
    plainHttp: true,
    allowPrivateAddress: true,
    tokenHosts: hosts,
  };
  const registries = new Map(hosts.map(host => [host, settings]));
  const timeouts = { connectMs: 20_000, headersMs: 20_000, idleMs: 20_000 };
  const transport = createTransport(registries, timeouts);
  const exchange = createExchange({
    health: noRemoteHealth,
    transport,
    authorizer: createAuthorizer(transport, registries, 30_000, retry),
    registries,
    mirrorCredentials: async () => undefined,
    retry,
    onMirrorFailure: () => {},
  });
  return {
    pusher: createPushClient(exchange, registry => endpointOf(registries, registry), 1000),
    registry: createRegistryClient(exchange),
    [Symbol.asyncDispose]: () => transport.close(),
  };
}

function hostsOf({ host, tokenService }: Registry): string[] {
  return tokenService ? [host, new URL(tokenService.realm).host] : [host];
}

function accessTo({ host, username, password }: Registry, repository: string): Access {
  return { registry: host, repository, credentials: { kind: 'password', username, password } };
}

function blobOf(bytes: Buffer) {
  const opened: number[] = [];
  const destroyed: number[] = [];
  const open = async () => {
    opened.push(1);
    return { ...sourceOfBytes(bytes), destroy: () => void destroyed.push(1) };
  };
  return { digest: digestOf(bytes), size: bytes.length, open, opened, destroyed };
}

for (const auth of ['none', 'basic', 'bearer'] as const) {
  test(`an image is pushed to a registry with authentication: ${auth}`, async () => {
    await using registry = await startRegistry({ auth });
    await using clients = clientsOf(...hostsOf(registry));
    const { pusher } = clients;
    const target = pushingTo(accessTo(registry, 'team/app'));
    await pusher.check(target);
    const config = blobOf(Buffer.from('{"architecture":"amd64","os":"linux"}'));
    const layer = blobOf(Buffer.alloc(3_000_000, 'layer'));
    assert.equal(await pusher.putBlob(target, config), 'sent');
    assert.equal(await pusher.putBlob(target, layer), 'sent');
    assert.equal(await pusher.putBlob(target, layer), 'there');
    assert.equal(layer.opened.length, 1);
    const manifest = documentOf(
      Buffer.from(
        JSON.stringify({
          schemaVersion: 2,
          mediaType: mediaTypes.ociManifest,
          config: { mediaType: mediaTypes.ociConfig, digest: config.digest, size: config.size },
          layers: [{ mediaType: mediaTypes.ociLayerGzip, digest: layer.digest, size: layer.size }],
        }),
      ),
      mediaTypes.ociManifest,
    );
    await pusher.putManifest(target, 'v1', manifest);
    const found = await clients.registry.getManifest(accessTo(registry, 'team/app'), 'v1');
    assertBytes(found.bytes, manifest.bytes);
    const mounting = pushingTo(accessTo(registry, 'other/app'), 'team/app');
    assert.equal(await pusher.putBlob(mounting, layer), 'mounted');
    assert.equal(layer.opened.length, 1);
  });
}

test('a push uses the upload that a check with the same credentials has begun, and otherwise it is cancelled', async () => {
  await using registry = await startRegistry({ auth: 'basic' });
  await using clients = clientsOf(registry.host);
  const { pusher } = clients;
  const targetOf = (repository: string) => pushingTo(accessTo(registry, repository));
  const asked = (repository: string) =>
    registry.requests
      .filter(({ path, status }) => path.startsWith(`/v2/${repository}/`) && status !== 401)
      .map(({ method }) => method);
  await pusher.check(targetOf('used'));
  for (const text of ['one', 'two']) {
    const blob = { ...blobOf(Buffer.from(text)), isNew: true };
    assert.equal(await pusher.putBlob(targetOf('used'), blob), 'sent');
  }
  await pusher.check(targetOf('unused'));
  await eventually('the end of the upload', async () => asked('unused').includes('DELETE'));
  assert.deepEqual(asked('unused'), ['POST', 'DELETE']);
  assert.deepEqual(asked('used'), ['POST', 'PUT', 'POST', 'PUT']);
});

for (const auth of ['basic', 'bearer'] as const) {
  test(`the check reports wrong credentials, with authentication: ${auth}`, async () => {
    await using registry = await startRegistry({ auth });
    await using clients = clientsOf(...hostsOf(registry));
    const right = accessTo(registry, 'team/app');
    const wrong = { kind: 'password', username: 'tester', password: 'wrong' } as const;
    for (const credentials of [wrong, undefined]) {
      await assert.rejects(
        clients.pusher.check(pushingTo({ ...right, credentials })),
        (error: unknown) =>
          error instanceof Fault &&
          error.kind === 'denied' &&
          error.phase === 'credentials' &&
          !error.message.includes('wrong'),
      );
    }
  });
}

/** A registry of one listener. */
async function startScripted(listener: RequestListener) {
  const server = createServer(listener).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    host: `127.0.0.1:${port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
    },
  };
}

test('an interrupted upload starts again, at most three times', async () => {
  let puts = 0;
  let breaks = 2;
  await using registry = await startScripted((request, response) => {
    if (request.method === 'HEAD') return response.writeHead(404).end();
    if (request.method === 'POST') {
      return response.writeHead(202, { location: '/upload?state=1' }).end();
    }
    puts += 1;
    if (puts <= breaks) return request.socket.destroy();
    request.resume().once('end', () => response.writeHead(201).end());
    assert.match(request.url ?? '', /state=1&digest=sha256/);
    return undefined;
  });
  await using clients = clientsOf(registry.host);
  const target = pushingTo({ registry: registry.host, repository: 'a', credentials: undefined });
  const blob = blobOf(Buffer.alloc(100_000, 1));
  assert.equal(await clients.pusher.putBlob(target, blob), 'sent');
  assert.equal(puts, 3);
  [puts, breaks] = [0, 9];
  await assert.rejects(clients.pusher.putBlob(target, blob), { name: 'Fault', phase: 'push' });
  assert.equal(puts, 3);
});

test('credentials are not sent to another origin of an upload', async () => {
  const seen: (string | undefined)[] = [];
  await using storage = await startScripted((request, response) => {
    seen.push(request.headers.authorization);
    request.resume().once('end', () => response.writeHead(201).end());
  });
  await using registry = await startScripted((request, response) => {
    if (request.headers.authorization === undefined) {
      return response.writeHead(401, { 'www-authenticate': 'Basic realm="r"' }).end();
    }
    if (request.method === 'HEAD') return response.writeHead(404).end();
    return response.writeHead(202, { location: `http://${storage.host}/upload` }).end();
  });
  await using clients = clientsOf(registry.host, storage.host);
  const credentials = { kind: 'password', username: 'u', password: 'p' } as const;
  const target = pushingTo({ registry: registry.host, repository: 'a', credentials });
  assert.equal(await clients.pusher.putBlob(target, blobOf(Buffer.from('x'))), 'sent');
  assert.deepEqual(seen, [undefined]);
});

test('an invalid answer to a push is reported as such', async () => {
  await using registry = await startScripted((request, response) => {
    response.writeHead(request.method === 'HEAD' ? 404 : 200).end();
  });
  await using clients = clientsOf(registry.host);
  const target = pushingTo({ registry: registry.host, repository: 'a', credentials: undefined });
  await assert.rejects(clients.pusher.check(target), /answered 200 to the start of an upload/);
});

test('the source of a blob is released even if nobody has read from it', async () => {
  let location = '';
  await using registry = await startScripted((request, response) => {
    if (request.method === 'HEAD') return response.writeHead(404).end();
    return response.writeHead(202, { location }).end();
  });
  const gone = await startScripted(() => {});
  location = `http://${gone.host}/upload`;
  await gone[Symbol.asyncDispose]();
  await using clients = clientsOf(registry.host, gone.host);
  const target = pushingTo({ registry: registry.host, repository: 'a', credentials: undefined });
  const blob = blobOf(Buffer.alloc(100_000, 1));
  await assert.rejects(clients.pusher.putBlob(target, blob), { name: 'Fault', phase: 'push' });
  assert.equal(blob.opened.length, 3);
  assert.equal(blob.destroyed.length, 3);
});

test('a registry that refuses to mount gets the bytes', async () => {
  for (const status of [400, 401, 403, 404, 405]) {
    await using registry = await startScripted((request, response) => {
      if (request.method === 'HEAD') return response.writeHead(404).end();
      if (request.url?.includes('mount=')) return response.writeHead(status).end();
      if (request.method === 'POST') return response.writeHead(202, { location: '/up' }).end();
      request.resume().once('end', () => response.writeHead(201).end());
      return undefined;
    });
    await using clients = clientsOf(registry.host);
    const access = { registry: registry.host, repository: 'a', credentials: undefined };
    const blob = blobOf(Buffer.from('bytes'));
    assert.equal(await clients.pusher.putBlob(pushingTo(access, 'private/base'), blob), 'sent');
  }
});

test('a push does not require the token for a mount', async () => {
  const scopes: string[] = [];
  await using registry = await startScripted((request, response) => {
    const url = new URL(request.url ?? '', 'http://x');
    if (url.pathname === '/token') {
      const wanted = url.searchParams.getAll('scope');
      scopes.push(wanted.join(' '));
      if (wanted.some(scope => scope.includes('private/base'))) {
        return response.writeHead(403).end();
      }
      return response.writeHead(200).end(JSON.stringify({ token: 'good', expires_in: 300 }));
    }
    if (request.headers.authorization !== 'Bearer good') {
      const realm = `http://${request.headers.host}/token`;
      const challenge = `Bearer realm="${realm}",service="s"`;
      return response.writeHead(401, { 'www-authenticate': challenge }).end();
    }
    if (request.method === 'HEAD') return response.writeHead(404).end();
    if (request.method === 'POST') return response.writeHead(202, { location: '/up' }).end();
    request.resume().once('end', () => response.writeHead(201).end());
    return undefined;
  });
  await using clients = clientsOf(registry.host);
  const access = { registry: registry.host, repository: 'a', credentials: undefined };
  const blob = blobOf(Buffer.from('bytes'));
  assert.equal(await clients.pusher.putBlob(pushingTo(access, 'private/base'), blob), 'sent');
  assert.deepEqual(scopes, [
    'repository:a:pull,push repository:private/base:pull',
    'repository:a:pull,push',
  ]);
});

test('a small new blob is sent without a question, and a blob that is there ends the try to mount it', async () => {
  const asked: string[] = [];
  await using registry = await startScripted((request, response) => {
    asked.push(request.method ?? '');
    if (request.method === 'HEAD') return response.writeHead(200).end();
    if (request.method === 'POST') return response.writeHead(202, { location: '/up' }).end();
    request.resume().once('end', () => {
      response.writeHead(request.method === 'PUT' ? 201 : 204).end();
    });
    return undefined;
  });
  await using clients = clientsOf(registry.host);
  const access = { registry: registry.host, repository: 'a', credentials: undefined };
  const blob = blobOf(Buffer.from('bytes'));
  assert.equal(await clients.pusher.putBlob(pushingTo(access), { ...blob, isNew: true }), 'sent');
  assert.deepEqual(asked.splice(0), ['POST', 'PUT']);
  assert.equal(await clients.pusher.putBlob(pushingTo(access, 'base'), blob), 'there');
  await eventually('the end of the upload', () => asked.length === 3);
  assert.deepEqual(asked, ['POST', 'HEAD', 'DELETE']);
});

test('a repository that must be created first, and a forgotten upload, are reported as such', async () => {
  let status = 404;
  let forgotten = 1;
  await using registry = await startScripted((request, response) => {
    if (request.method === 'HEAD') return response.writeHead(404).end();
    if (request.method === 'POST') {
      return response.writeHead(status, { location: '/up' }).end();
    }
    request.resume().once('end', () => response.writeHead(forgotten-- > 0 ? 404 : 201).end());
    return undefined;
  });
  await using clients = clientsOf(registry.host);
  const target = pushingTo({ registry: registry.host, repository: 'a', credentials: undefined });
  await assert.rejects(clients.pusher.check(target), /\/a does not exist, .*: create it first$/);
  status = 202;
  assert.equal(await clients.pusher.putBlob(target, blobOf(Buffer.from('x'))), 'sent');
});

test('an upload without an address is an invalid answer', async () => {
  await using registry = await startScripted((_request, response) => {
    response.writeHead(202).end();
  });
  await using clients = clientsOf(registry.host);
  const target = pushingTo({ registry: registry.host, repository: 'a', credentials: undefined });
  await assert.rejects(clients.pusher.check(target), /answered 202 to the start of an upload/);
});

test('the message of a registry that refuses a push is passed on', async () => {
  await using registry = await startScripted((request, response) => {
    request.resume().once('end', () => {
      const errors = [{ code: 'TAG_INVALID', message: 'The tag "v1" is\u0007 immutable.' }];
      response.writeHead(412, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ errors }));
    });
  });
  await using clients = clientsOf(registry.host);
  const target = pushingTo({ registry: registry.host, repository: 'a', credentials: undefined });
  const manifest = documentOf(Buffer.from('{"schemaVersion":2}'), mediaTypes.ociManifest);
  await assert.rejects(
    clients.pusher.putManifest(target, 'v1', manifest),
    (error: unknown) =>
      error instanceof Fault &&
      error.status === 400 &&
      /refuses the push \(412\)\. It said: "The tag .*v1.* immutable\."$/.test(error.message),
  );
});

test('the place of an upload is judged as an address that the registry names', async () => {
  const requests: HttpRequest[] = [];
  const location = 'https://storage.example.com/upload/1';
  const send: Transport['send'] = async request => {
    requests.push(request);
    const headers = new Map([['location', location]]);
    return { status: 202, headers, contentLength: 0, body: sourceOfBytes(Buffer.alloc(0)) };
  };
  const exchange = createExchange({
    ...{ health: noRemoteHealth, registries: new Map(), retry, onMirrorFailure: () => {} },
    transport: { send, sendBlob: send, checkReach: async () => {}, close: async () => {} },
    authorizer: { known: async () => undefined, respond: async () => undefined, forget() {} },
    mirrorCredentials: async () => undefined,
  });
  const pusher = createPushClient(exchange, registry => endpointOf(new Map(), registry), 1);
  const registry = 'registry.example.com';
  await pusher.check(pushingTo({ registry, repository: 'team/app', credentials: undefined }));
  // Nobody waits for the end of the upload.
  await eventually('the end of the upload', () => requests.length === 2);
  const [first, second] = requests;
  assert.equal(first?.from, undefined);
  assert.equal(second?.url.href, location);
  assert.equal(second?.from?.origin, `https://${registry}`);
});
