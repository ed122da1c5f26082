import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Fault } from '../../src/foundation/fault.ts';
import { fetchBearer } from '../../src/upstream/auth/bearer.ts';
import type { Credentials } from '../../src/upstream/credentials.ts';
import { defaultRegistrySettings } from '../../src/upstream/registry-settings.ts';
import { checkAddress } from '../../src/upstream/transport/address-guard.ts';
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
  readonly status?: number;
  readonly headers?: ReadonlyMap<string, string>;
  /** The error of the transport. */
  readonly failure?: Error;
  readonly repository?: string;
  readonly hasService?: boolean;
  readonly isAnonymous?: boolean;
  readonly signal?: AbortSignal;
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
      if (asked.failure) throw asked.failure;
      return {
        status: asked.status ?? 200,
        headers: asked.headers ?? new Map(),
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
    repository: asked.repository ?? 'team/app',
    signal: asked.signal,
    scopes: asked.scopes ?? ['repository:team/app:pull'],
    settings: { ...defaultRegistrySettings, plainHttp, tokenHosts },
    credentials: asked.isAnonymous ? undefined : (asked.credentials ?? credentials),
    retry: { attempts: 1, firstDelayMs: 1, longestDelayMs: 1 },
    challenge: {
      scheme: 'bearer',
      parameters: asked.hasService === false ? { realm } : { realm, service: 'it & that' },
    },
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
    { realm: 'https://auth.one.github.io/t', registry: 'one.github.io' },
    { realm: 'https://other:login@registry.example.com/token' },
  ]) {
    const { token, request } = await ask(asked);
    assert.equal(token.token, 't');
    const registry = asked.registry ?? 'registry.example.com';
    assert.equal(request?.from?.host, new URL(`https://${registry}`).host, 'judged as named by it');
    assert.equal(request?.url.searchParams.get('scope'), 'repository:team/app:pull');
    assert.equal(request?.url.searchParams.get('service'), 'it & that');
    assert.equal(request?.headers.authorization, `Basic ${btoa('robot:secret')}`);
    assert.deepEqual([request?.url.username, request?.url.password], ['', '']);
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
  assert.deepEqual([form.get('service'), form.get('client_id')], ['it & that', 'sluice']);
  assert.equal(request?.headers['content-type'], 'application/x-www-form-urlencoded');
  assert.equal(request?.from?.host, 'registry.example.com', 'judged as named by it');
  const { signal } = new AbortController();
  const other = await ask({
    realm: 'https://registry.example.com/token',
    credentials: { kind: 'identity-token', token: 'refresh me' },
    scopes: ['repository:a:pull', 'repository:b:pull,push'],
    ...{ hasService: false, signal },
  });
  const second = new URLSearchParams(String(other.request?.body));
  assert.equal(second.get('scope'), 'repository:a:pull repository:b:pull,push');
  assert.equal(second.has('service'), false);
  assert.equal(other.request?.signal, signal);
});

const realm = 'https://registry.example.com/token';

test('without credentials, an anonymous token is requested', async () => {
  const { signal } = new AbortController();
  const scopes = ['repository:a:pull', 'repository:b:pull'];
  const asked = { realm, scopes, isAnonymous: true, hasService: false, signal };
  const { request } = await ask(asked);
  assert.deepEqual(request?.url.searchParams.getAll('scope'), scopes);
  assert.equal(request?.url.searchParams.has('service'), false);
  assert.deepEqual([request?.headers, request?.signal], [{}, signal]);
});

test('a refusal names the service, whose credentials they were, and what they lack', async () => {
  const where = 'The token service registry.example.com of registry.example.com';
  const push = ['repository:team/app:pull', 'repository:team/app:pull,push'];
  for (const [status, kind, more, message] of [
    ...[400, 401, 403, 404].map(one => [
      ...[one, 'denied', {}, /the credentials configured for it .*'team\/app' .* may pull it/],
    ]),
    [401, 'denied', { isAnonymous: true, scopes: push }, /an anonymous request .* may push to it/],
    [429, 'too-many-requests', {}, /limits the rate of requests/],
    ...[402, 405, 428, 430, 500, 399, 204].map(one => [one, 'upstream', {}, /answered \d+: try/]),
  ] as [number, string, Partial<Asked>, RegExp][]) {
    const body = { message: 'not you' };
    const headers = new Map([['retry-after', '7']]);
    await assert.rejects(ask({ realm, status, body, headers, ...more }), error => {
      assert.ok(error instanceof Fault);
      assert.deepEqual([error.kind, error.phase], [kind, 'credentials'], String(status));
      assert.equal(error.retryAfterSeconds, 7);
      assert.ok(error.message.startsWith(where) && error.message.endsWith('It said: "not you"'));
      assert.match(error.message, message);
      return true;
    });
  }
});

test('a token service at a closed address, and one that does not answer, are described', async () => {
  const closed = closedAddress();
  await assert.rejects(ask({ realm, failure: closed }), error => {
    assert.ok(error instanceof Fault);
    assert.deepEqual([error.kind, error.phase], ['upstream-unusable', 'credentials']);
    assert.match(
      error.message,
      /'registry\.example\.com'.* registries\.registry\.example\.com\.tokenHosts/,
    );
    return true;
  });
  const failure = Object.assign(new Error('reset'), { code: 'ECONNREFUSED' });
  for (const [repository, what] of [
    ['team/app', 'a token for team/app'],
    ['', 'a token for a login'],
  ] as const) {
    await assert.rejects(ask({ realm, failure, repository }), {
      message: new RegExp(
        `^The token service registry\\.example\\.com of registry\\.example\\.com .*\\(asked for ${what}\\)`,
      ),
    });
  }
});

/** The error of a connection to a private address. */
function closedAddress(): Error {
  try {
    checkAddress(new URL('https://10.0.0.1'), () => false);
  } catch (error) {
    return error as Error;
  }
  return assert.fail('the address is private');
}

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
  for (const token of ['a'.repeat(65 * 1024), '', 'a\nb', 'a\rb']) {
    await assert.rejects(ask({ realm, body: { token } }), /example\.com returned no usable token/);
  }
});
