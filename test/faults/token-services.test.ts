import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import { after, before, test } from 'node:test';
import { assertLogged, type FaultWorld, startFaultWorld } from './fault-world.ts';
import { assertApiFault, assertRegistryFault } from './http-client.ts';
import { type ScriptedUpstream, startScriptedUpstream } from './scripted-upstream.ts';

const password = 'the-password-of-the-robot';
const bearer = 'a-bearer-token-that-nobody-may-see';
let world: FaultWorld;
/** Listens, but is not listed anywhere. */
let untrusted: ScriptedUpstream;
/** Listed as a token host only. */
let tokens: ScriptedUpstream;
const faultIds: string[] = [];

before(async () => {
  untrusted = await startScriptedUpstream();
  tokens = await startScriptedUpstream();
  world = await startFaultWorld(
    { upstream: {} },
    { anonymous: true, username: 'robot', password, tokenHosts: [tokens.host] },
  );
});

after(async () => {
  assertLogged(await world.log(), faultIds);
  const text = world.sluice.output();
  for (const secret of [password, bearer, Buffer.from(`robot:${password}`).toString('base64')]) {
    assert.ok(!text.includes(secret), `${secret} is not in the log`);
  }
  assert.deepEqual(untrusted.requests, [], 'nothing was ever sent to a realm that is refused');
  await Promise.all([world[Symbol.asyncDispose](), untrusted.stop(), tokens.stop()]);
});

/** A repository that requires a bearer token of the realm. */
function guarded(repository: string, realm: string) {
  const { relay } = world.upstreams;
  const image = relay.image(repository);
  relay.on(`/v2/${repository}/`, (request, response, serve) => {
    if (request.headers.authorization === `Bearer ${bearer}`) return serve();
    response.writeHead(401, {
      'www-authenticate': `Bearer realm="${realm}",service="registry, of tests",scope="repository:${repository}:pull"`,
    });
    response.end();
  });
  return image;
}

const json = (response: ServerResponse, status: number, body: unknown) => {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(JSON.stringify(body));
};

for (const member of ['token', 'access_token'] as const) {
  test(`a token service of the registry's own host answers with ${member}`, async () => {
    const { relay } = world.upstreams;
    const image = guarded(`own/${member}`, `http://${relay.host}/tokens/${member}`);
    relay.on(`/tokens/${member}`, (request, response) => {
      const { searchParams } = new URL(request.url ?? '', 'http://x');
      assert.equal(searchParams.get('service'), 'registry, of tests');
      assert.equal(searchParams.get('scope'), `repository:own/${member}:pull`);
      json(response, 200, { [member]: bearer, expires_in: 300 });
    });
    const pull = await world.serve(image);
    assert.equal((await pull(`blobs/${image.layers[0]?.digest}`)).status, 200);
    const asked = relay.requests.filter(({ path }) => path.startsWith(`/tokens/${member}`));
    assert.equal(asked.length, 1, 'the token is used again');
    const basic = `Basic ${Buffer.from(`robot:${password}`).toString('base64')}`;
    assert.equal(asked[0]?.headers.authorization, basic);
  });
}

test('a registry that no longer requires a login is asked without one', async () => {
  const { relay } = world.upstreams;
  const image = relay.image('own/moved');
  let isGuarded = true;
  relay.on('/tokens/moved', (_, response) => json(response, 400, {}));
  relay.on('/v2/own/moved/', (_, response, serve) => {
    if (!isGuarded) return serve();
    response.writeHead(401, {
      'www-authenticate': `Bearer realm="http://${relay.host}/tokens/moved"`,
    });
    response.end();
  });
  await assert.rejects(world.serve(image));
  isGuarded = false;
  const pull = await world.serve(image);
  assert.equal((await pull(`blobs/${image.layers[0]?.digest}`)).status, 200);
});

test('a token service that the operator listed may be on another host', async () => {
  const image = guarded('listed/app', `http://${tokens.host}/auth`);
  tokens.on('/auth', (_request, response) => json(response, 200, { token: bearer }));
  await world.serve(image);
  assert.equal(tokens.count('GET', '/auth'), 1);
});

/** Like Harbor, which offers its token service only to a request without a login. */
function harbor(repository: string) {
  const { relay } = world.upstreams;
  const image = relay.image(repository);
  const state = { key: 1, realm: 'first', mayLogIn: true, tokens: 0 };
  relay.on(`/tokens/${repository}/`, (request, response) => {
    if (!request.url?.startsWith(`/tokens/${repository}/${state.realm}`))
      return json(response, 404, {});
    state.tokens += 1;
    return state.mayLogIn
      ? json(response, 200, { token: `${bearer}-${state.key}`, expires_in: 300 })
      : json(response, 401, {});
  });
  relay.on(`/v2/${repository}/`, ({ headers: { authorization } }, response, serve) => {
    if (state.mayLogIn && authorization === `Bearer ${bearer}-${state.key}`) return serve();
    const realm = `http://${relay.host}/tokens/${repository}/${state.realm}`;
    const offered = authorization
      ? 'Basic realm="harbor"'
      : `Bearer realm="${realm}",service="harbor-registry",scope="repository:${repository}:pull"`;
    response.writeHead(401, { 'www-authenticate': offered }).end();
  });
  return { image, state };
}

test('a registry that answers a refused token with Basic is asked without a login', async () => {
  const { relay } = world.upstreams;
  const { image, state } = harbor('harbor/app');
  const pull = await world.serve(image);
  const layer = `blobs/${image.layers[0]?.digest}`;
  assert.equal((await pull(layer)).status, 200);
  // It starts again with another key, and its token service moves.
  for (const [key, realm] of [
    [2, 'first'],
    [3, 'second'],
  ] as const) {
    Object.assign(state, { key, realm, tokens: 0 });
    const before = relay.requests.length;
    assert.equal((await pull(layer)).status, 200, `key ${key}`);
    assert.equal(state.tokens, 1);
    assert.equal(
      relay.requests.length - before,
      4,
      'refused, without a login, the token, the blob',
    );
    assert.equal((await pull(layer)).status, 200);
    assert.equal(relay.requests.length - before, 5, 'the new token is used again');
  }
});

test('a registry that refuses everything for a while is used again afterwards', async () => {
  const { image, state } = harbor('harbor/closed');
  await world.serve(image);
  state.key = 2;
  state.mayLogIn = false;
  for (let attempt = 0; attempt < 3; attempt += 1) await assert.rejects(world.serve(image));
  state.mayLogIn = true;
  const pull = await world.serve(image);
  assert.equal((await pull(`blobs/${image.layers[0]?.digest}`)).status, 200);
});

test('a password that is refused is not sent twice', async () => {
  const { relay } = world.upstreams;
  const image = relay.image('basic/app');
  let isGood = true;
  relay.on('/v2/basic/app/', ({ headers: { authorization } }, response, serve) => {
    if (isGood && authorization?.startsWith('Basic ')) return serve();
    response.writeHead(401, { 'www-authenticate': 'Basic realm="registry"' }).end();
  });
  const pull = await world.serve(image);
  const layer = `blobs/${image.layers[0]?.digest}`;
  assert.equal((await pull(layer)).status, 200);
  isGood = false;
  const before = relay.requests.length;
  assert.notEqual((await pull(layer)).status, 200);
  const logins = relay.requests
    .slice(before)
    .map(({ headers }) => headers.authorization !== undefined);
  assert.deepEqual(logins, [true, false]);
  isGood = true;
  assert.equal((await pull(layer)).status, 200);
});

test('a refused token is replaced once', async () => {
  const { relay } = world.upstreams;
  const image = guarded('own/stale', `http://${relay.host}/tokens/stale`);
  let given = 0;
  relay.on('/tokens/stale', (_request, response) => {
    given += 1;
    json(response, 200, { token: given === 1 ? bearer : `${bearer}-2`, expires_in: 300 });
  });
  const pull = await world.serve(image);
  relay.on('/v2/own/stale/', (request, response, serve) => {
    if (request.headers.authorization === `Bearer ${bearer}-2`) return serve();
    response.writeHead(401, {
      'www-authenticate': `Bearer realm="http://${relay.host}/tokens/stale"`,
    });
    response.end();
  });
  assert.equal((await pull(`blobs/${image.layers[0]?.digest}`)).status, 200);
  assert.equal(given, 2);
  relay.on('/v2/own/stale/', (_request, response) => {
    response.writeHead(401, {
      'www-authenticate': `Bearer realm="http://${relay.host}/tokens/stale"`,
    });
    response.end();
  });
  const reply = await pull(`blobs/${image.layers[0]?.digest}`);
  faultIds.push(
    assertRegistryFault(reply, { status: 403, code: 'DENIED', message: /refused access/ }),
  );
});

interface Refusal {
  readonly title: string;
  readonly realm: () => string;
  readonly message: RegExp;
}
const refusals: readonly Refusal[] = [
  {
    title: 'on another host',
    realm: () => 'http://tokens.example.com/auth',
    message: /a token service that is not its own \('tokens\.example\.com'\).*tokenHosts/,
  },
  {
    title: 'at a private address of another host',
    realm: () => 'http://10.9.8.7/auth',
    message: /is not its own \('10\.9\.8\.7'\)/,
  },
  {
    title: 'at an unlisted port of a private host',
    realm: () => `http://${untrusted.host}/auth`,
    message: /a token service at a loopback, private .*tokenHosts/,
  },
  {
    title: 'of another protocol',
    realm: () => 'file:///etc/passwd',
    message: /is not reached over https/,
  },
  { title: 'that is not a URL', realm: () => 'nonsense', message: /is not a URL/ },
];
for (const { title, realm, message } of refusals) {
  test(`a realm ${title} is refused`, async () => {
    const image = guarded(`refused/${title.toLowerCase().replaceAll(' ', '-')}`, realm());
    const reply = await world.ask({ containerImage: image.name });
    faultIds.push(assertApiFault(reply, 400, message));
  });
}

for (const status of [429, 500, 503]) {
  test(`a token service that answers ${status} twice is asked again`, async () => {
    const { relay } = world.upstreams;
    const image = guarded(`passing/s${status}`, `http://${relay.host}/tokens/s${status}/`);
    let asked = 0;
    relay.on(`/tokens/s${status}/`, (_request, response) => {
      asked += 1;
      json(response, asked > 2 ? 200 : status, { token: bearer, expires_in: 300 });
    });
    await world.serve(image);
    assert.equal(asked, 3);
  });
}

test('a token service that always disconnects is asked as often as configured', async () => {
  const { relay } = world.upstreams;
  const image = guarded('breaking/app', `http://${relay.host}/tokens/breaking/`);
  relay.on('/tokens/breaking/', (_request, response) => response.destroy());
  const reply = await world.ask({ containerImage: image.name });
  const message = /The token service .* of .* closed the connection/;
  faultIds.push(assertApiFault(reply, 502, message));
  assert.equal(relay.count('GET', '/tokens/breaking/'), 3);
});

test('error messages of a token service are quoted, without the data that was sent', async () => {
  const { relay } = world.upstreams;
  const image = guarded('quoted/app', `http://${relay.host}/tokens/quoted/`);
  relay.on('/tokens/quoted/', (request, response) => {
    const details = `the account robot is locked; ${request.headers.authorization}; ${password}`;
    json(response, 401, { details });
  });
  const reply = await world.ask({ containerImage: image.name });
  const message = /\(401\).*It said: "the account robot is locked; Basic \*\*\*; \*\*\*"/;
  faultIds.push(assertApiFault(reply, 403, message));
});

const failures = [
  [200, { nothing: 'here' }, 502, /returned no usable token/],
  [200, 'no object', 502, /returned no usable token/],
  [200, { token: 'two\r\nlines' }, 502, /returned no usable token/],
  [401, { errors: [] }, 403, /refused the credentials configured for it \(401\)/],
  [403, {}, 403, /refused the credentials configured for it \(403\)/],
  [429, {}, 429, /token service .* limits the rate/],
  [500, {}, 502, /token service .* answered 500: try again later/],
] as const;
for (const [status, body, expected, message] of failures) {
  test(`a token service that answers ${status} ${JSON.stringify(body)}`, async () => {
    const { relay } = world.upstreams;
    const name = `t${status}${JSON.stringify(body).replace(/\W/g, '')}`.toLowerCase();
    const image = guarded(`failing/${name}`, `http://${relay.host}/tokens/${name}/`);
    relay.on(`/tokens/${name}/`, (_request, response) => json(response, status, body));
    const reply = await world.ask({ containerImage: image.name });
    faultIds.push(assertApiFault(reply, expected, message));
    assert.ok(relay.count('GET', `/tokens/${name}/`) >= 1);
  });
}
