import assert from 'node:assert/strict';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { after, before, test } from 'node:test';
import { assertBytes } from '../world/assert-bytes.ts';
import { assertLogged, type FaultWorld, startFaultWorld } from './fault-world.ts';
import { assertApiFault, assertRegistryFault, type Call, type Reply } from './http-client.ts';
import type { Script, ScriptedImage } from './scripted-upstream.ts';

let world: FaultWorld;
let image: ScriptedImage;
let pull: (route: string, call?: Call) => Promise<Reply>;
const faultIds: string[] = [];

before(async () => {
  world = await startFaultWorld({
    upstream: {},
    registries: { 'registry.invalid': { mirrors: ['mirror.invalid', 'second.invalid'] } },
  });
  image = world.upstreams.relay.image('team/app');
  pull = await world.serve(image, { env: ['A=1'] });
});

after(async () => {
  const lines = await world.log();
  assertLogged(lines, faultIds);
  const mirrors = lines.filter(({ msg }) => msg === 'a mirror failed: the next registry is used');
  assert.deepEqual(
    new Set(mirrors.map(({ mirror }) => mirror)),
    new Set(['mirror.invalid', 'second.invalid']),
  );
  assert.ok(mirrors.every(({ level, err }) => level === 'warn' && err));
  const words = lines.find(({ err }) => err?.message.includes('has not accepted the terms'));
  assert.ok(
    words?.err?.causes?.some(cause => cause.includes('a long page')),
    'the body is logged',
  );
  await world[Symbol.asyncDispose]();
});

const respond =
  (status: number, headers: Record<string, string> = {}): Script =>
  (_request, response) => {
    response.writeHead(status, headers);
    response.end('an unexpected error page');
  };

interface Case {
  readonly title: string;
  readonly script: Script;
  readonly api: { readonly status: number; readonly message: RegExp };
  readonly registry: { readonly status: number; readonly code: string; readonly message: RegExp };
  readonly tries?: number;
  readonly retryAfter?: string;
}

const refused = /refused access to .* has no credentials for/;
const cases: readonly Case[] = [
  {
    title: '401 without a challenge',
    script: respond(401),
    api: { status: 403, message: refused },
    registry: { status: 403, code: 'DENIED', message: refused },
    tries: 1,
  },
  {
    title: '401 with a Basic challenge and no credentials for it',
    script: respond(401, { 'www-authenticate': 'Basic realm="upstream"' }),
    api: { status: 403, message: refused },
    registry: { status: 403, code: 'DENIED', message: refused },
    tries: 1,
  },
  {
    title: '403',
    script: respond(403),
    api: { status: 403, message: refused },
    registry: { status: 403, code: 'DENIED', message: refused },
    tries: 1,
  },
  {
    title: '404',
    script: respond(404),
    api: { status: 400, message: /does not exist at .*: check 'containerImage'/ },
    registry: { status: 404, code: 'BLOB_UNKNOWN', message: /does not exist at/ },
    tries: 1,
  },
  {
    title: '429 with a long Retry-After, which is handed on at once',
    script: respond(429, { 'retry-after': '77' }),
    api: { status: 429, message: /limits the rate of requests: try again later/ },
    registry: { status: 429, code: 'TOOMANYREQUESTS', message: /limits the rate of requests/ },
    tries: 1,
    retryAfter: '77',
  },
  {
    title: '500, asked three times',
    script: respond(500),
    api: { status: 502, message: /answered 500 for .*: try again later/ },
    registry: { status: 502, code: 'UNAVAILABLE', message: /answered 500 for .*: try again later/ },
    tries: 3,
  },
];

for (const { title, script, api, registry, tries, retryAfter } of cases) {
  test(`an upstream that answers ${title}`, async () => {
    const { relay } = world.upstreams;
    const repository = `status/${title.replace(/[^a-z0-9]+/gi, '').toLowerCase()}`;
    const broken = relay.image(repository);
    relay.on(`/v2/${repository}/manifests/`, script);
    const made = await world.ask({ containerImage: broken.name });
    faultIds.push(assertApiFault(made, api.status, api.message));
    assert.equal(made.headers['retry-after'], retryAfter);
    assert.equal(relay.count('HEAD', `/v2/${repository}/manifests/`), tries);

    const [layer] = image.layers;
    relay.on(`/blobs/${layer?.digest}`, script);
    const before = relay.count('GET', `/blobs/${layer?.digest}`);
    const pulled = await pull(`blobs/${layer?.digest}`);
    faultIds.push(assertRegistryFault(pulled, registry));
    assert.equal(pulled.headers['retry-after'], retryAfter);
    assert.equal(relay.count('GET', `/blobs/${layer?.digest}`) - before, tries);

    relay.on(`/blobs/${layer?.digest}`, (_request, _response, serve) => serve());
    const mended = await pull(`blobs/${layer?.digest}`);
    assertBytes(mended.body, layer?.bytes, 'works as soon as the upstream does');
  });
}

test('mirrors that fail are named in the final error', async () => {
  const reply = await world.ask({ containerImage: 'registry.invalid/team/app:1' });
  const message =
    /The registry registry\.invalid .* \(asked before: mirror mirror\.invalid: .*; mirror second\.invalid: /;
  faultIds.push(assertApiFault(reply, 400, message));
});

const bodies = [
  [
    'application/json',
    '{"errors":[{"code":"DENIED","message":"quota\\nof team  used up"}]}',
    'quota of team used up',
  ],
  ['application/json', '{"message":"project is archived"}', 'project is archived'],
  [
    'application/xml',
    '<Error><Code>Denied</Code><Message>has expired</Message></Error>',
    'has expired',
  ],
  [
    'text/html',
    '<html><head><title>Sign in</title></head><body>a long page</body></html>',
    'Sign in',
  ],
  ['text/plain', 'see https://x.test/a?X-Signature=abc&token=1 now', 'see https://x.test/a now'],
  ['application/json', '{"errors":[{"message":"eyJhbGciOi.eyJzdWIi.c2ln leaks"}]}', '*** leaks'],
] as const;
test('error messages of a registry are quoted', async () => {
  const { relay } = world.upstreams;
  const spoken = relay.image('status/spoken');
  const [layer] = image.layers;
  for (const [type, body, words] of bodies) {
    const script = (request: IncomingMessage, response: ServerResponse) => {
      response.writeHead(403, { 'content-type': type });
      response.end(request.method === 'HEAD' ? undefined : body);
    };
    relay.on('/v2/status/spoken/manifests/', script);
    const message = /quota/.test(body) ? /^The quota at .* is used up/ : /refused access to/;
    relay.on(`/blobs/${layer?.digest}`, script);
    const made = await world.ask({ containerImage: spoken.name });
    faultIds.push(assertApiFault(made, 403, message));
    assert.ok(JSON.parse(String(made.body)).message.includes(`. It said: "${words}" - Error ID`));
    const pulled = await pull(`blobs/${layer?.digest}`);
    faultIds.push(assertRegistryFault(pulled, { status: 403, code: 'DENIED', message }));
    assert.ok(JSON.parse(String(pulled.body)).errors[0].message.endsWith(`. It said: "${words}"`));
  }
  relay.on(`/blobs/${layer?.digest}`, (_request, _response, serve) => serve());
});

test('an endless error body is reported, and logged up to 4 KiB', async () => {
  const { relay } = world.upstreams;
  const endless = relay.image('status/endless');
  relay.on('/v2/status/endless/manifests/', (request, response) => {
    response.writeHead(403, { 'content-type': 'text/html' });
    if (request.method === 'HEAD') return response.end();
    response.write(`<title>has not accepted the terms</title>a long page${'.'.repeat(5000)}`);
  });
  const reply = await world.ask({ containerImage: endless.name });
  faultIds.push(assertApiFault(reply, 403, /"has not accepted the terms"/));
});

test('an upstream that answers 503 once is asked again', async () => {
  const { relay } = world.upstreams;
  const flaky = relay.image('team/flaky');
  for (const part of ['/v2/team/flaky/manifests/', '/v2/team/flaky/blobs/']) {
    let responded = 0;
    relay.on(part, (request, response, serve) => {
      responded += 1;
      if (responded > 1) return serve();
      respond(503)(request, response, serve);
    });
  }
  const get = await world.serve(flaky);
  const [layer] = flaky.layers;
  const reply = await get(`blobs/${layer?.digest}`);
  assert.equal(reply.status, 200);
  assertBytes(reply.body, layer?.bytes);
  assert.equal(relay.count('GET', '/v2/team/flaky/blobs/'), 2);
});

test('a registry without HEAD is asked with GET', async () => {
  const { relay } = world.upstreams;
  const headless = relay.image('team/headless');
  relay.on('HEAD /v2/team/headless/manifests/', respond(405));
  const get = await world.serve(headless);
  assertBytes((await get('manifests/latest')).body, headless.manifest);
});

test('a short Retry-After of an upstream is honoured', async () => {
  const { relay } = world.upstreams;
  const paced = relay.image('team/paced');
  const times: number[] = [];
  relay.on('/v2/team/paced/manifests/', (request, response, serve) => {
    times.push(performance.now());
    if (times.length > 1) return serve();
    respond(429, { 'retry-after': '1' })(request, response, serve);
  });
  await world.serve(paced);
  const [first = 0, second = 0] = times;
  assert.ok(second - first >= 990, `${second - first} ms`);
});

test('a truncated manifest is requested again', async () => {
  const { relay } = world.upstreams;
  const cut = relay.image('team/cut');
  let broken = 0;
  relay.on('GET /v2/team/cut/manifests/', (_request, response, serve) => {
    broken += 1;
    if (broken > 2) return serve();
    response.writeHead(200, {
      'content-type': 'application/vnd.oci.image.manifest.v1+json',
      'content-length': cut.manifest.length,
    });
    response.write(cut.manifest.subarray(0, 50), () => response.destroy());
  });
  const get = await world.serve(cut);
  assertBytes((await get('manifests/latest')).body, cut.manifest);
  assert.equal(broken, 3);
});

test('a manifest that is always truncated is an error of the upstream', async () => {
  const { relay } = world.upstreams;
  const cut = relay.image('team/always-cut');
  relay.on('GET /v2/team/always-cut/manifests/', (_request, response) => {
    response.writeHead(200, { 'content-length': cut.manifest.length });
    response.write(cut.manifest.subarray(0, 50), () => response.destroy());
  });
  const reply = await world.ask({ containerImage: cut.name });
  faultIds.push(assertApiFault(reply, 502, /closed the connection/));
});
