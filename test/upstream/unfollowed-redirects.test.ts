/** Redirects that are neither followed nor passed on, and the bodies of responses that nobody reads. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Fault } from '../../src/foundation/fault.ts';
import { noRemoteHealth } from '../../src/foundation/telemetry/remote-health.ts';
import { digestOf } from '../../src/oci/digest.ts';
import { sourceOfBytes } from '../../src/storage/content/byte-source.ts';
import { createExchange } from '../../src/upstream/exchange.ts';
import { createRegistryClient } from '../../src/upstream/registry-client.ts';
import type { Transport } from '../../src/upstream/transport/transport.ts';

const access = { registry: 'registry.example.com', repository: 'app', credentials: undefined };
const digest = digestOf(Buffer.from('blob'));
const metadata = 'http://169.254.169.254/latest';

/** A client of a registry that gives the same response to everything. */
function clientOf(status: number, headers: Readonly<Record<string, string>>, token?: Error) {
  let destroyed = 0;
  const checked: string[] = [];
  const send: Transport['send'] = async () => {
    const source = sourceOfBytes(Buffer.from('moved'));
    const destroy = () => {
      destroyed += 1;
      source.destroy();
    };
    const body = { ...source, destroy };
    return { status, headers: new Map(Object.entries(headers)), contentLength: 5, body };
  };
  const exchange = createExchange({
    transport: {
      ...{ send, sendBlob: send },
      checkReach: async ({ url }) => void checked.push(url.href),
      close: async () => {},
    },
    authorizer: {
      known: async () => undefined,
      respond: () => (token ? Promise.reject(token) : Promise.resolve(undefined)),
      forget() {},
    },
    registries: new Map(),
    mirrorCredentials: async () => undefined,
    retry: { attempts: 1, firstDelayMs: 1, longestDelayMs: 1 },
    onMirrorFailure: () => {},
    health: noRemoteHealth,
  });
  return {
    client: createRegistryClient(exchange),
    checked,
    get destroyed() {
      return destroyed;
    },
  };
}

const isUnusable = (message: RegExp) => (error: unknown) =>
  error instanceof Fault && error.kind === 'upstream-unusable' && message.test(error.message);

for (const status of [300, 304, 305, 306]) {
  for (const location of [metadata, '/elsewhere', undefined]) {
    test(`a client does not get the address of a ${status} (${location})`, async () => {
      const world = clientOf(status, location === undefined ? {} : { location });
      const opening = world.client.openBlob(access, digest, { redirects: 'handOn' });
      await assert.rejects(opening, isUnusable(new RegExp(`answered ${status} for .*app@sha256`)));
      assert.ok(world.destroyed > 0, 'the body is left open');
    });
  }
}

test('a redirect without an address, and content that did not change, are failures', async () => {
  for (const status of [302, 304]) {
    const { client } = clientOf(status, {});
    const message = isUnusable(new RegExp(`answered ${status} for`));
    await assert.rejects(client.getManifest(access, 'latest'), message);
    await assert.rejects(client.headManifest(access, 'latest'), message);
    await assert.rejects(client.getJson(access, 'tags/list', ''), message);
  }
});

test('a redirect to another host is passed on after its address was checked', async () => {
  const location = 'https://storage.example.com/blob?signature=a%2Fb';
  const world = clientOf(307, { location });
  const opened = await world.client.openBlob(access, digest, { redirects: 'handOn' });
  assert.ok(opened.kind === 'redirect');
  assert.equal(opened.location.href, location);
  assert.deepEqual(world.checked, [location]);
  assert.ok(world.destroyed > 0, 'the body is left open');
});

test('the body of a redirect to plain http is not left open', async () => {
  const world = clientOf(307, { location: metadata });
  const opening = world.client.openBlob(access, digest, { redirects: 'handOn' });
  await assert.rejects(opening, isUnusable(/redirects to 169\.254\.169\.254 over plain http/));
  assert.deepEqual(world.checked, []);
  assert.equal(world.destroyed, 1);
});

test('the body of a 401 is not left open when there is no token', async () => {
  const world = clientOf(401, {}, new Fault('upstream', 'no token', { phase: 'credentials' }));
  await assert.rejects(world.client.getManifest(access, 'latest'), /no token/);
  assert.equal(world.destroyed, 1);
});
