import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Fault } from '../../src/foundation/fault.ts';
import { fetchBearer } from '../../src/upstream/auth/bearer.ts';
import type { Credentials } from '../../src/upstream/auth/credentials.ts';
import { defaultRegistrySettings } from '../../src/upstream/registry-settings.ts';
import type { HttpRequest, Transport } from '../../src/upstream/transport/transport.ts';

const credentials: Credentials = { kind: 'password', username: 'robot', password: 'secret' };

interface Asked {
  readonly realm: string;
  readonly registry?: string;
  readonly plainHttp?: boolean;
  readonly tokenHosts?: readonly string[];
  readonly credentials?: Credentials;
  readonly scopes?: readonly string[];
  readonly body?: object;
}

/** Requests a token from a transport that answers everything. Returns the sent requests. */
async function ask(asked: Asked) {
  const requests: HttpRequest[] = [];
  const { realm, registry = 'registry.example.com', plainHttp = false, tokenHosts = [] } = asked;
  const response = Buffer.from(JSON.stringify(asked.body ?? { token: 't' }));
  const parts = [response];
  const transport: Transport = {
    async send(request) {
      requests.push(request);
      return {
        status: 200,
        headers: new Map(),
        contentLength: response.length,
        body: {
          async read() {
            const bytes = parts.shift();
            return bytes ? { bytes, release() {} } : null;
          },
          destroy() {},
        },
      };
    },
    checkReach: async () => {},
    sendBlob: () => assert.fail('a token is not a blob'),
    close: async () => {},
  };
  const token = await fetchBearer(transport, {
    registry,
    endpoint: new URL(`${plainHttp ? 'http' : 'https'}://${registry}`),
    repository: 'team/app',
    scopes: asked.scopes ?? ['repository:team/app:pull'],
    settings: { ...defaultRegistrySettings, plainHttp, tokenHosts },
    credentials: asked.credentials ?? credentials,
    retry: { attempts: 1, firstDelayMs: 1, longestDelayMs: 1 },
    challenge: { scheme: 'bearer', parameters: { realm, service: 'it & that' } },
  });
  return { token, request: requests[0] };
}

test("token services on the registry's host are asked", async () => {
  for (const asked of [
    { realm: 'https://registry.example.com/token' },
    { realm: 'https://registry.example.com:8443/token?x=1' },
    { realm: 'https://auth.example.com/token' },
    { realm: 'https://auth.docker.io/token', registry: 'registry-1.docker.io' },
    { realm: 'http://registry.example.com/token', plainHttp: true },
    { realm: 'https://elsewhere.org/t', tokenHosts: ['elsewhere.org'] },
    { realm: 'https://10.0.0.1:81/t', registry: '10.0.0.1:80' },
  ]) {
    const { token, request } = await ask(asked);
    assert.equal(token.token, 't');
    const registry = asked.registry ?? 'registry.example.com';
    assert.equal(request?.from?.host, new URL(`https://${registry}`).host, 'judged as named by it');
    assert.equal(request?.url.searchParams.get('scope'), 'repository:team/app:pull');
    assert.equal(request?.url.searchParams.get('service'), 'it & that');
    assert.equal(request?.headers.authorization, `Basic ${btoa('robot:secret')}`);
  }
});

test('token services on other hosts are refused, and receive nothing', async () => {
  for (const [asked, message] of [
    [{ realm: 'http://registry.example.com/token' }, /not reached over https/],
    [{ realm: 'https://evil.org/token' }, /not its own \('evil\.org'\)/],
    [{ realm: 'https://example.com.evil.org/token' }, /not its own/],
    [{ realm: 'https://evilexample.com/token' }, /not its own/],
    [{ realm: 'https://registry.example.com@evil.org/' }, /not its own \('evil\.org'\)/],
    [{ realm: 'https://two.github.io/', registry: 'one.github.io' }, /not its own/],
    [{ realm: 'https://b.co.uk/', registry: 'a.co.uk' }, /not its own/],
    [{ realm: 'https://10.0.0.2/', registry: '10.0.0.1' }, /not its own/],
    [{ realm: 'https://elsewhere.org:444/t', tokenHosts: ['elsewhere.org'] }, /not its own/],
    [{ realm: '/token' }, /not a URL/],
    [{ realm: 'ftp://registry.example.com/' }, /not reached over https/],
  ] as const) {
    await assert.rejects(ask(asked), (error: unknown) => {
      assert.ok(error instanceof Fault);
      assert.equal(error.status, 502);
      assert.equal(error.phase, 'credentials');
      assert.match(error.message, message);
      return true;
    });
  }
});

test('an identity token is exchanged by POST', async () => {
  const { request } = await ask({
    realm: 'https://registry.example.com/token',
    credentials: { kind: 'identity-token', token: 'refresh me' },
    body: { access_token: 'a' },
  });
  assert.equal(request?.method, 'POST');
  assert.equal(request?.url.search, '');
  const form = new URLSearchParams(String(request?.body));
  assert.equal(form.get('grant_type'), 'refresh_token');
  assert.equal(form.get('refresh_token'), 'refresh me');
  assert.equal(form.get('scope'), 'repository:team/app:pull');
});

test('a token lives for its stated time, or a minute', async () => {
  for (const [body, seconds] of [
    [{ token: 't' }, 60],
    [{ token: 't', expires_in: 300 }, 300],
    [{ token: 't', expires_in: 0 }, 1],
    [{ token: 't', expires_in: -5 }, 1],
  ] as const) {
    const before = performance.now();
    const { token } = await ask({ realm: 'https://registry.example.com/token', body });
    const [least, most] = [before, performance.now()].map(now => (token.expiresAt - now) / 1000);
    assert.ok(Number(least) > seconds * 0.8 && Number(most) <= seconds, `${least} of ${seconds}`);
  }
});

test('a token that no registry accepts is refused', async () => {
  const realm = 'https://registry.example.com/token';
  await assert.rejects(
    ask({ realm, body: { token: 'a'.repeat(65 * 1024) } }),
    /returned no usable token/,
  );
});
