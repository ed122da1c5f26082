import assert from 'node:assert/strict';
import { request } from 'node:http';
import { after, before, test } from 'node:test';
import {
  type FaultWorld,
  postJson,
  startFaultWorld,
  stopWithoutErrors,
} from '../faults/fault-world.ts';
import { assertApiFault, call } from '../faults/http-client.ts';
import { emptyLayer } from '../faults/scripted-upstream.ts';

let world: FaultWorld;
let containerImage: string;

before(async () => {
  world = await startFaultWorld();
  containerImage = world.upstreams.relay.image('team/app').name;
});

after(async () => {
  await stopWithoutErrors(world);
  assert.ok(!world.sluice.output().includes('hunter2'), 'no part of a body is in the log');
  await world[Symbol.asyncDispose]();
});

const inline = (bytes: Buffer) => `data:${bytes.toString('base64')}`;
const withLayers = (...layers: object[]) => ({ containerConfig: { layers } });

const url = () => `${world.sluice.url}/v1alpha2/container`;

test('a body that is not a JSON object', async () => {
  for (const [body, message] of [
    [
      '{"containerImage": "alpine", "platformAccessToken": hunter2 }',
      /not valid JSON.*: check its quotes/,
    ],
    ['{"containerImage": "alpine",\n}', /not valid JSON \(line 2 column 1\): check/],
    ['', /body is empty/],
    ['[]', /The body: .*expected object/],
    ['null', /The body: .*expected object/],
    ['"alpine"', /The body: .*expected object/],
    ['['.repeat(100_000), /nested more than 32 deep/],
  ] as const) {
    assertApiFault(await postJson(url(), body), 400, message);
  }
});

test('a body of another type', async () => {
  const reply = await call(url(), {
    method: 'POST',
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    body: 'containerImage=alpine',
  });
  assertApiFault(reply, 415, /must be JSON: send Content-Type: application\/json/);
});

test('a body of 20 MB is refused, with and without a stated length', async () => {
  const body = Buffer.alloc(20_000_000, ' ');
  const headers = { 'content-type': 'application/json' };
  for (const length of [{ 'content-length': body.length }, { 'transfer-encoding': 'chunked' }]) {
    const reply = await call(url(), { method: 'POST', headers: { ...headers, ...length }, body });
    assertApiFault(
      reply,
      413,
      /larger than the \d+ bytes allowed: send layers by URL,.* limits\.bodyBytes/,
    );
  }
});

test('a client that disconnects during its body causes no error', async () => {
  const sent = request(url(), {
    method: 'POST',
    agent: false,
    headers: { 'content-type': 'application/json', 'content-length': 1000 },
  });
  sent.on('error', () => {});
  sent.write('{"containerImage":');
  await new Promise(resolve => setTimeout(resolve, 50));
  sent.destroy();
  assert.equal((await world.ask({ containerImage })).status, 200);
});

test('older names of members have the same meaning', async () => {
  const refused = await world.ask({ containerImage, towerAccessToken: 'hunter2' });
  assertApiFault(refused, 403, /access token is invalid/);
  const elsewhere = await world.ask({
    containerImage,
    towerAccessToken: 'hunter2',
    towerEndpoint: 'https://x.example.com',
  });
  assertApiFault(
    elsewhere,
    400,
    /'towerEndpoint': this server does not use the platform x\.example\.com\. Set the field to http:\/\/[\w.:]+\/platform or leave it out/,
  );
  const own = await world.ask({
    containerImage,
    platformAccessToken: 'hunter2',
    platformEndpoint: 'https://x.example.com',
  });
  assertApiFault(own, 400, /'platformEndpoint': this server does not use/);
  const malformed = await world.ask({ containerImage, towerWorkspaceId: 'x' });
  assertApiFault(malformed, 400, /'towerWorkspaceId': expected a whole number/);
});

test('valid bodies are accepted', async () => {
  for (const body of [
    { unknownField: { deep: true }, containerConfig: { unknown: 1 } },
    { platformWorkspaceId: 12, timestamp: '2026-01-31T12:00:00Z', fingerprint: 'f' },
    { platformWorkspaceId: '12', timestamp: '2026-01-31T12:00:00.123+02:00' },
    { towerWorkspaceId: '7', towerRefreshToken: 'hunter2' },
    { towerWorkspaceId: 'nonsense', platformWorkspaceId: 5 },
    {
      containerPlatform: null,
      containerConfig: null,
      freeze: null,
      format: null,
      packages: null,
      timestamp: null,
      nameStrategy: null,
    },
    { freeze: false, format: 'docker', nameStrategy: 'none' },
    { containerConfig: { env: null, cmd: null, entrypoint: null, workingDir: null, layers: null } },
    { containerPlatform: 'linux/amd64' },
    { containerPlatform: 'amd64' },
    { buildRepository: 'r.example.com:5000/a/b', cacheRepository: 'team/cache' },
    withLayers({ location: inline(emptyLayer), gzipSize: emptyLayer.length }),
    withLayers({ location: inline(emptyLayer), gzipSize: String(emptyLayer.length) }),
    withLayers({ location: `data:application/gzip;base64,${emptyLayer.toString('base64')}` }),
  ]) {
    const reply = await world.ask({ containerImage, ...body });
    assert.equal(reply.status, 200, `${JSON.stringify(body)}: ${reply.body}`);
    const { containerToken, targetImage, expiration } = JSON.parse(reply.body.toString());
    assert.match(containerToken, /^[a-z0-9]{26,}$/);
    assert.equal(targetImage, `${world.sluice.host}/ct/${containerToken}/team/app:latest`);
    const left = Date.parse(expiration) - Date.now();
    assert.ok(left > 35.9 * 3_600_000 && left <= 36 * 3_600_000);
  }
});

test('__proto__ is an unknown field like any other', async () => {
  const reply = await postJson(url(), `{"__proto__":{"containerImage":"${containerImage}"}}`);
  assertApiFault(reply, 400, /is required when 'containerImage' is omitted/);
});
