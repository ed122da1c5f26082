import assert from 'node:assert/strict';
import { request } from 'node:http';
import { after, before, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { type FaultWorld, postJson, readLog, startFaultWorld } from '../faults/fault-world.ts';
import { assertApiFault, call } from '../faults/http-client.ts';
import { emptyLayer } from '../faults/scripted-upstream.ts';

let world: FaultWorld;
let containerImage: string;

before(async () => {
  world = await startFaultWorld({
    layers: { maxCount: 3, maxInlineBytes: '64 KiB', maxUrlBytes: '100 KiB', maxTarBytes: '1 MiB' },
  });
  containerImage = world.upstreams.relay.image('team/app').name;
});

after(async () => {
  await world.sluice.stop();
  const errors = readLog(world.sluice.output()).filter(({ level }) => level === 'error');
  assert.deepEqual(errors, [], 'a bad request is no error of the service');
  assert.ok(!world.sluice.output().includes('hunter2'), 'no part of a body is in the log');
  await world[Symbol.asyncDispose]();
});

const inline = (bytes: Buffer) => `data:${bytes.toString('base64')}`;
const withLayers = (...layers: object[]) => ({ containerConfig: { layers } });
const base64 = Buffer.from('FROM alpine').toString('base64');

/** Each with the image of the tests, unless it names one itself. */
const bad: readonly (readonly [title: string, body: object, status: number, message: RegExp])[] = [
  [
    'nothing to serve',
    { containerImage: undefined },
    400,
    /'containerFile' .*is required when 'containerImage' is omitted: send one/,
  ],
  [
    'null for everything',
    { containerImage: null, containerFile: null },
    400,
    /'containerFile' .*is required/,
  ],
  [
    'an empty image name',
    { containerImage: '' },
    400,
    /'containerImage' is empty: give an image name/,
  ],
  [
    'image and file',
    { containerFile: base64 },
    400,
    /'containerImage' must be omitted when 'containerFile' is given: send one/,
  ],
  [
    'image and conda file',
    { condaFile: base64 },
    400,
    /'containerImage' must be omitted when 'condaFile'/,
  ],
  [
    'image and packages',
    { packages: { type: 'CONDA' } },
    400,
    /'containerImage' must be omitted when 'packages'/,
  ],
  [
    'file and packages',
    { containerImage: undefined, containerFile: base64, packages: { type: 'CONDA' } },
    400,
    /'packages' must be omitted when 'containerFile'/,
  ],
  [
    'a file that is not base64',
    { containerImage: undefined, containerFile: 'FROM alpine' },
    400,
    /'containerFile' is not base64: encode/,
  ],
  [
    'a conda file that is not base64',
    { containerImage: undefined, condaFile: '!!' },
    400,
    /'condaFile' is not base64: encode/,
  ],
  ['freeze without repository', { freeze: true }, 400, /'freeze' requires 'buildRepository': name/],
  [
    'sif without freeze',
    { format: 'sif', buildRepository: 'r.example.com/a/b' },
    400,
    /'format: sif' requires 'freeze: true'/,
  ],
  [
    'a build repository with a tag',
    { buildRepository: 'r.example.com/a/b:1' },
    400,
    /'buildRepository' must be a repository without tag/,
  ],
  [
    'a build repository without a path',
    { buildRepository: 'team' },
    400,
    /'buildRepository' is incomplete: write registry\/path/,
  ],
  [
    'a build repository in upper case',
    { buildRepository: 'r.example.com/A/b' },
    400,
    /'buildRepository': .*lower case/,
  ],
  [
    'a cache repository with a digest',
    { cacheRepository: `r.example.com/a/b@sha256:${'0'.repeat(64)}` },
    400,
    /'cacheRepository' must be a repository/,
  ],
  ['a wrong timestamp', { timestamp: 'yesterday' }, 400, /'timestamp' is not an ISO 8601/],
  ['an image in upper case', { containerImage: 'Alpine' }, 400, /'containerImage': .*lower case/],
  [
    'an image with ..',
    { containerImage: 'r.example.com/../app' },
    400,
    /'containerImage': Invalid image name/,
  ],
  ['an image with a space', { containerImage: 'al pine' }, 400, /'containerImage': .*space/],
  [
    'an image of 300 characters',
    { containerImage: `r.example.com/${'a'.repeat(300)}` },
    400,
    /'containerImage': .*longer than 255/,
  ],
  [
    'an image with a protocol',
    { containerImage: 'https://r.example.com/app' },
    400,
    /'containerImage': .*leave out the protocol/,
  ],
  [
    'an image with half a digest',
    { containerImage: 'alpine@sha256:abc' },
    400,
    /'containerImage': .*not a digest/,
  ],
  [
    'an image with a port of no network',
    { containerImage: 'r.example.com:99999/app' },
    400,
    /'containerImage': .*not a registry host/,
  ],
  [
    'an unknown platform',
    { containerPlatform: 'windows/amd64' },
    400,
    /'containerPlatform': .*use linux\/amd64 or linux\/arm64/,
  ],
  [
    'an unsupported architecture',
    { containerPlatform: 'linux/s390x' },
    400,
    /'containerPlatform': .*use linux\/amd64/,
  ],
  [
    'a platform the image has not',
    { containerPlatform: 'linux/arm64' },
    400,
    /has no image for linux\/arm64; it has: linux\/amd64/,
  ],
  ['an image as a number', { containerImage: 5 }, 400, /'containerImage': .*expected string/],
  ['a config as a list', { containerConfig: [] }, 400, /'containerConfig': .*expected object/],
  [
    'an entrypoint as text',
    { containerConfig: { entrypoint: 'sh' } },
    400,
    /'containerConfig\.entrypoint': .*expected array/,
  ],
  [
    'a number in env',
    { containerConfig: { env: ['A=1', 2] } },
    400,
    /'containerConfig\.env\[1\]': .*expected string/,
  ],
  [
    'env without a value',
    { containerConfig: { env: ['A=1', 'B'] } },
    400,
    /'containerConfig\.env\[1\]' is not of the form NAME=value/,
  ],
  [
    'env without a name',
    { containerConfig: { env: ['=1'] } },
    400,
    /'containerConfig\.env\[0\]' is not of the form/,
  ],
  [
    'a NUL character',
    { containerConfig: { workingDir: '/a\0b' } },
    400,
    /'containerConfig\.workingDir': has a NUL/,
  ],
  ['freeze as text', { freeze: 'true' }, 400, /'freeze': .*expected boolean/],
  ['an unknown format', { format: 'zip' }, 400, /'format': /],
  ['an unknown name strategy', { nameStrategy: 'random' }, 400, /'nameStrategy': /],
  [
    'a workspace that is no number',
    { platformWorkspaceId: 'mine' },
    400,
    /'platformWorkspaceId': expected a whole number, or its digits/,
  ],
  [
    'half a workspace',
    { platformWorkspaceId: 1.5 },
    400,
    /'platformWorkspaceId': expected a whole number/,
  ],
  [
    'a negative workspace',
    { platformWorkspaceId: -1 },
    400,
    /'platformWorkspaceId': expected a whole number/,
  ],
  [
    'a layer without location',
    withLayers({}),
    400,
    /'containerConfig\.layers\[0\]\.location': .*expected string/,
  ],
  [
    'a layer at no URL',
    withLayers({ location: 'ftp://example.com/x' }),
    400,
    /containerConfig\.layers\[0\]\.location must be an http\(s\) URL, or 'data:'/,
  ],
  [
    'a layer at a broken URL',
    withLayers({ location: 'http://' }),
    400,
    /containerConfig\.layers\[0\]\.location is not a URL/,
  ],
  [
    'a layer that is not base64',
    withLayers({ location: 'data:@@@' }),
    400,
    /containerConfig\.layers\[0\]\.location is not base64/,
  ],
  ['an empty layer', withLayers({ location: 'data:' }), 400, /layers\[0\] is not a gzip file/],
  [
    'a layer that is not gzip',
    withLayers({ location: inline(Buffer.alloc(1024, 'x')) }),
    400,
    /layers\[0\] is not a gzip file: pack it with 'tar -cz'/,
  ],
  [
    'a layer cut short',
    withLayers({ location: inline(emptyLayer.subarray(0, 20)) }),
    400,
    /layers\[0\] is not a gzip file/,
  ],
  [
    'a layer with a little behind it',
    withLayers({ location: inline(Buffer.concat([emptyLayer, Buffer.alloc(10)])) }),
    400,
    /layers\[0\] is not a gzip file only: it has bytes after its end/,
  ],
  [
    'a layer with much behind it',
    withLayers({ location: inline(Buffer.concat([emptyLayer, Buffer.alloc(40_000, 7)])) }),
    400,
    /layers\[0\] is not a gzip file/,
  ],
  [
    'a layer that is not tar',
    withLayers({ location: inline(gzipSync(Buffer.alloc(2000, 'no tar'))) }),
    400,
    /layers\[0\] is not a tar archive/,
  ],
  [
    'a layer of a few bytes',
    withLayers({ location: inline(gzipSync('x')) }),
    400,
    /layers\[0\] is not a tar archive/,
  ],
  [
    'the second layer is bad',
    withLayers({ location: inline(emptyLayer) }, { location: inline(gzipSync('x')) }),
    400,
    /layers\[1\] is not a tar/,
  ],
  [
    'a wrong gzipDigest',
    withLayers({ location: inline(emptyLayer), gzipDigest: `sha256:${'0'.repeat(64)}` }),
    400,
    /layers\[0\]\.gzipDigest is sha256:0000.*, but the layer's is sha256:/,
  ],
  [
    'a wrong tarDigest',
    withLayers({ location: inline(emptyLayer), tarDigest: `sha256:${'1'.repeat(64)}` }),
    400,
    /layers\[0\]\.tarDigest is sha256:1111.*, but the layer's is sha256:/,
  ],
  [
    'a wrong gzipSize',
    withLayers({ location: inline(emptyLayer), gzipSize: 7 }),
    400,
    /layers\[0\]\.gzipSize is 7, but the layer's is \d+/,
  ],
  [
    'a gzipSize that is no number',
    withLayers({ location: inline(emptyLayer), gzipSize: '7 bytes' }),
    400,
    /'containerConfig\.layers\[0\]\.gzipSize': expected a whole number/,
  ],
  [
    'too many layers',
    withLayers(...Array.from({ length: 4 }, () => ({ location: inline(emptyLayer) }))),
    400,
    /has 4 layers, at most 3 are allowed: pack several into one/,
  ],
  [
    'a layer that is too large',
    withLayers({ location: inline(Buffer.alloc(70_000)) }),
    413,
    /layers\[0\] is larger than the 65536 bytes allowed/,
  ],
  [
    'a layer that unpacks to too much',
    withLayers({ location: inline(gzipSync(Buffer.alloc(2 ** 21))) }),
    413,
    /layers\[0\] unpacks to more than the 1048576 bytes allowed/,
  ],
  [
    'a build of a file',
    { containerImage: undefined, containerFile: base64 },
    501,
    /'containerFile' is not supported by this version/,
  ],
  [
    'a build of a conda file',
    { containerImage: undefined, condaFile: base64 },
    501,
    /'condaFile' is not supported/,
  ],
  [
    'a build of packages',
    { containerImage: undefined, packages: { type: 'CONDA', entries: ['samtools'] } },
    501,
    /'packages' is not supported/,
  ],
  [
    'a spack build',
    { containerImage: undefined, spackFile: base64 },
    501,
    /'spackFile' is not supported/,
  ],
  [
    'a frozen image',
    { freeze: true, buildRepository: 'r.example.com/a/b' },
    501,
    /'freeze' is not supported/,
  ],
];

for (const [title, body, status, message] of bad) {
  test(`a request with ${title} is answered with ${status} and a sentence`, async () => {
    assertApiFault(await world.ask({ containerImage, ...body }), status, message);
  });
}

test('the deprecated endpoint knows neither packages nor nameStrategy', async () => {
  for (const [field, value] of [
    ['packages', { type: 'CONDA' }],
    ['nameStrategy', 'none'],
  ] as const) {
    const reply = await postJson(`${world.sluice.url}/container-token`, {
      containerImage,
      [field]: value,
    });
    assertApiFault(reply, 400, new RegExp(`'${field}' is not known to /container-token: use POST`));
  }
});

const url = () => `${world.sluice.url}/v1alpha2/container`;

test('a body that is no JSON object', async () => {
  for (const [body, message] of [
    ['{"containerImage": "alpine", "platformAccessToken": hunter2 }', /not valid JSON/],
    ['', /body is empty/],
    ['[]', /The body: .*expected object/],
    ['null', /The body: .*expected object/],
    ['"alpine"', /The body: .*expected object/],
    ['['.repeat(100_000), /not valid JSON/],
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

test('a body of 20 MB is refused, whether its length was told or not', async () => {
  const body = Buffer.alloc(20_000_000, ' ');
  const headers = { 'content-type': 'application/json' };
  for (const length of [{ 'content-length': body.length }, { 'transfer-encoding': 'chunked' }]) {
    const reply = await call(url(), { method: 'POST', headers: { ...headers, ...length }, body });
    assertApiFault(reply, 413, /larger than the \d+ bytes allowed: give large layers by URL/);
  }
});

test('a client that leaves in mid-body is no error', async () => {
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

test('what is right is taken', async () => {
  for (const body of [
    { unknownField: { deep: true }, containerConfig: { unknown: 1 } },
    { platformWorkspaceId: 12, timestamp: '2026-01-31T12:00:00Z', fingerprint: 'f' },
    { platformWorkspaceId: '12', timestamp: '2026-01-31T12:00:00.123+02:00' },
    {
      towerAccessToken: 'hunter2',
      towerWorkspaceId: '7',
      towerEndpoint: 'https://x.example.com',
      towerRefreshToken: 'hunter2',
    },
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

test('__proto__ is an unknown field like others', async () => {
  const reply = await postJson(url(), `{"__proto__":{"containerImage":"${containerImage}"}}`);
  assertApiFault(reply, 400, /is required when 'containerImage' is omitted/);
});
