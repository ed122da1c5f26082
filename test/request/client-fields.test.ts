import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { nearestName } from '../../src/foundation/nearest-name.ts';
import { clientFields } from '../../src/http/api/container/field-check.ts';
import {
  type FaultWorld,
  postJson,
  startFaultWorld,
  stopWithoutErrors,
} from '../faults/fault-world.ts';
import { assertApiFault } from '../faults/http-client.ts';
import { emptyLayer } from '../faults/scripted-upstream.ts';

let world: FaultWorld;
let containerImage: string;

before(async () => {
  world = await startFaultWorld();
  containerImage = world.upstreams.relay.image('team/app').name;
});

after(async () => {
  await stopWithoutErrors(world);
  await world[Symbol.asyncDispose]();
});

/** Values by the path of their field, and the warning in the response; undefined for none. */
const refusals: readonly (readonly [body: object, message: RegExp])[] = [
  [{ mirror: true }, /'mirror' requires 'buildRepository': name the registry or the repository/],
  [{ scanMode: 'required' }, /'scanMode' cannot be honoured: this server does not scan images\./],
  [{ scanMode: 'sometimes' }, /scanMode/],
];
const warned: readonly (readonly [body: object, message: RegExp])[] = [
  [{ scanMode: 'async' }, /^'scanMode' is ignored: this server does not scan images$/],
  [{ scanLevels: ['LOW'] }, /^'scanLevels' is ignored: this server does not scan/],
  // A client sends its settings with every request, also for an image that exists.
  [{ buildTemplate: 'conda/micromamba:v2' }, /^'buildTemplate' is ignored: it is for 'packages'/],
  [{ buildTemplate: 'cran/installr:v1' }, /^'buildTemplate' is ignored: it is for 'packages'/],
  [
    { buildCompression: { mode: 'zstd', level: 3 } },
    /^'buildCompression' is ignored: the layers of an existing image stay as they are$/,
  ],
  [{ spackTarget: 'x86_64' }, /^'spackTarget' is ignored: Spack is deprecated$/],
  [
    { frezee: true },
    /^'frezee' is not a field of this API, and is ignored: did you mean 'freeze'\?$/,
  ],
  [{ towerAcessToken: 'x' }, /: did you mean 'towerAccessToken'\?$/],
  [{ miror: true }, /: did you mean 'mirror'\?$/],
  [{ cpuShares: { a: 'b' } }, /^'cpuShares' is not a field of this API, and is ignored$/],
  [{ somethingElse: 1 }, /^'somethingElse' is not a field of this API, and is ignored$/],
  [
    { containerConfig: { entrypont: ['/'] } },
    /^'containerConfig\.entrypont' .* did you mean 'entrypoint'/,
  ],
  [{ 'a\u001b[31m\n': 1 }, /^'a\?\[31m\?' is not a field/],
];
const silent: readonly object[] = [
  { mirror: false, scanMode: 'none', scanLevels: [], containerIncludes: [] },
  { mirror: null, scanMode: null, buildTemplate: null, workflowId: null, whatever: null },
  { buildTemplate: '', workflowId: '', spackTarget: '' },
  { buildCompression: {} },
  { buildCompression: { mode: 'gzip' } },
];

for (const [body, message] of refusals) {
  test(`refused: ${JSON.stringify(body)}`, async () => {
    for (const dryRun of [false, true]) {
      assertApiFault(await world.ask({ containerImage, dryRun, ...body }), 400, message);
    }
  });
}

for (const [body, message] of warned) {
  test(`answered with a warning: ${JSON.stringify(body)}`, async () => {
    for (const dryRun of [false, true]) {
      const reply = await world.ask({ containerImage, dryRun, ...body });
      const { warnings = [] } = JSON.parse(reply.body.toString());
      assert.equal(reply.status, 200, reply.body.toString());
      assert.equal(warnings.length, 1);
      assert.match(warnings[0], message);
    }
  });
}

for (const body of silent) {
  test(`answered without a warning: ${JSON.stringify(body)}`, async () => {
    const reply = await world.ask({ containerImage, ...body });
    assert.equal(reply.status, 200, reply.body.toString());
    assert.equal(JSON.parse(reply.body.toString()).warnings, undefined);
  });
}

test('nested fields are checked too, and hints that clients send for themselves are not reported', async () => {
  const unused = { pixiOpts: { pixiImage: 'x' }, spackOpts: { commands: ['echo'] } };
  const packages = { type: 'CONDA', entries: ['a'], ...unused, chanels: ['b'] };
  const reply = await world.ask({ packages, dryRun: true });
  const { warnings = [] } = JSON.parse(reply.body.toString());
  assert.deepEqual(warnings, [
    "'packages.pixiOpts.pixiImage' is ignored: Conda packages are not installed with pixi here",
    "'packages.spackOpts' is ignored: it is for packages of type SPACK",
    "'packages.chanels' is not a field of this API, and is ignored: did you mean 'channels'?",
  ]);
  const location = `data:${emptyLayer.toString('base64')}`;
  const layers = [{ location, skipHashing: true, gzipdigest: 'x' }];
  const served = await world.ask({ containerImage, containerConfig: { layers } });
  assert.deepEqual(JSON.parse(served.body.toString()).warnings, [
    "'containerConfig.layers[0].gzipdigest' is not a field of this API, and is ignored: did you mean 'gzipDigest'?",
  ]);
});

test('templates for Conda packages are ignored with a warning, others are refused', async () => {
  const packages = { type: 'CONDA', entries: ['a'] };
  for (const buildTemplate of ['conda/micromamba:v1', 'conda/micromamba:v2', 'conda/pixi:v1']) {
    const reply = await world.ask({ packages, buildTemplate, dryRun: true });
    const { warnings = [] } = JSON.parse(reply.body.toString());
    assert.match(
      warnings[0],
      /^'buildTemplate' is ignored: this server makes images of Conda packages/,
    );
  }
  const ofR = { type: 'CRAN', entries: ['dplyr'] };
  const known = await world.ask({
    packages: ofR,
    buildTemplate: 'cran/installr:v1',
    dryRun: true,
  });
  assert.match(known.body.toString(), /'buildTemplate' is ignored: .* images of R packages/);
  for (const buildTemplate of ['cran/installr:v1', 'conda/pixi:v9', 7]) {
    const reply = await world.ask({ packages, buildTemplate, dryRun: true });
    assertApiFault(reply, 400, /'buildTemplate' names a template that this server does not have/);
  }
});

test('a compression is part of the key, also with the layers of the base image, without a warning', async () => {
  const packages = { type: 'CONDA', entries: ['a'] };
  const buildCompression = { mode: 'estargz', level: 5, force: true };
  const forecast = async (more: object) =>
    JSON.parse((await world.ask({ packages, dryRun: true, ...more })).body.toString());
  const native = await forecast({ buildCompression });
  assert.equal(native.warnings, undefined);
  const without = await forecast({ buildCompression: { ...buildCompression, force: false } });
  assert.notEqual(native.key, without.key);
  const levels = [
    [99, /'buildCompression\.level': can be a whole number from 0 to 22/],
    [10, /'buildCompression\.level' can be 0 to 9 for estargz/],
  ] as const;
  for (const [level, message] of levels) {
    const far = await world.ask({ packages, buildCompression: { mode: 'estargz', level } });
    assertApiFault(far, 400, message);
  }
  const containerFile = Buffer.from('FROM scratch').toString('base64');
  const built = await world.ask({ containerFile, buildCompression, dryRun: true });
  const response = JSON.parse(built.body.toString());
  assert.equal(response.warnings, undefined);
  const plain = await world.ask({ containerFile, dryRun: true });
  assert.notEqual(response.key, JSON.parse(plain.body.toString()).key);
  const gzip = { containerFile, buildCompression: { mode: 'gzip' }, dryRun: true };
  const same = await world.ask(gzip);
  assert.equal(JSON.parse(same.body.toString()).key, JSON.parse(plain.body.toString()).key);
});

/** Every field that has a type in which a value can be empty. */
const empty: Readonly<Record<string, unknown>> = {
  ...{ containerFile: '', condaFile: '', spackFile: '', containerPlatform: '' },
  ...{ buildRepository: '', cacheRepository: '', timestamp: '', fingerprint: '', format: '' },
  ...{ towerEndpoint: '', towerAccessToken: '', towerRefreshToken: '', towerWorkspaceId: '' },
  ...{ packages: {}, nameStrategy: '', buildContext: {}, namedContexts: {}, buildArgs: {} },
  ...{ buildTarget: '', labels: {}, annotations: {}, created: '', secrets: {}, ssh: {} },
  ...{ buildCompression: { mode: '' }, containerConfig: {}, freeze: '', dryRun: '', noCache: '' },
};

for (const [field, value] of Object.entries(empty)) {
  test(`an empty ${field} is no ${field}`, async () => {
    const reply = await world.ask({ containerImage, [field]: value });
    assert.equal(reply.status, 200, reply.body.toString());
    assert.equal(JSON.parse(reply.body.toString()).warnings, undefined);
  });
}

test('all empty values together, also in objects, are no values', async () => {
  const nested = {
    packages: { type: '', environment: '', entries: [], channels: [], condaOpts: {} },
    buildContext: { location: '', gzipDigest: '', tarDigest: '', gzipSize: '' },
    buildCompression: { mode: '', level: null },
    containerConfig: { env: [], layers: [] },
  };
  const reply = await world.ask({ containerImage, ...empty, ...nested });
  assert.equal(reply.status, 200, reply.body.toString());
  // A value that is empty by its meaning stays: these remove what the image has.
  const removed = { containerConfig: { entrypoint: [] } };
  const served = await world.ask({ containerImage, ...removed });
  const { containerToken } = JSON.parse(served.body.toString());
  const details = await world.sluice.fetch(`/container-token/${containerToken}`);
  const { request } = (await details.json()) as { request: object };
  assert.deepEqual({ ...request, ...removed }, request);
});

test('the deprecated endpoint also warns', async () => {
  const body = { containerImage, frezee: true };
  const reply = await postJson(`${world.sluice.url}/container-token`, body);
  assert.match(JSON.parse(reply.body.toString()).warnings[0], /did you mean 'freeze'/);
});

test('of many unknown fields ten are named', async () => {
  const many = Object.fromEntries(Array.from({ length: 5000 }, (_, at) => [`unknown${at}`, at]));
  const reply = await world.ask({ containerImage, ...many });
  const { warnings } = JSON.parse(reply.body.toString());
  assert.equal(warnings.length, 11);
  assert.equal(warnings[10], 'Further fields are ignored, too');
  assert.ok(reply.ms < 5000, `${reply.ms} ms`);
  // A refused field is refused at every level.
  const refused = await world.ask({ containerImage, ...many, scanMode: 'required' });
  assertApiFault(refused, 400, /'scanMode' cannot be honoured/);
});

test('a suggestion is at most one slip away', () => {
  const known = ['freeze', 'format', 'containerImage'];
  assert.equal(nearestName('frezee', known), 'freeze');
  assert.equal(nearestName('FREEZE', known), 'freeze');
  assert.equal(nearestName('containerimgae', known), 'containerImage');
  assert.equal(nearestName('container', known), undefined);
  assert.equal(nearestName('x', known), undefined);
});

// Source: reference service, container request; libraries of its clients.
const sentByClients = [
  ...['towerAccessToken', 'towerRefreshToken', 'towerEndpoint', 'towerWorkspaceId', 'workflowId'],
  ...[
    'containerImage',
    'containerFile',
    'containerConfig',
    'condaFile',
    'spackFile',
    'spackTarget',
  ],
  ...['containerPlatform', 'buildRepository', 'cacheRepository', 'timestamp', 'fingerprint'],
  ...['freeze', 'buildContext', 'format', 'dryRun', 'containerIncludes', 'packages', 'mirror'],
  ...['nameStrategy', 'scanMode', 'scanLevels', 'buildCompression', 'buildTemplate'],
  ...['entrypoint', 'cmd', 'env', 'workingDir', 'layers'].map(name => `containerConfig.${name}`),
  ...['location', 'gzipDigest', 'gzipSize', 'tarDigest', 'skipHashing'].flatMap(name => [
    `containerConfig.layers[].${name}`,
    `buildContext.${name}`,
  ]),
  ...['type', 'environment', 'entries', 'channels'].map(name => `packages.${name}`),
  ...['condaOpts', 'pixiOpts', 'cranOpts', 'spackOpts'].map(name => `packages.${name}`),
  ...['mambaImage', 'baseImage', 'basePackages', 'commands'].map(
    name => `packages.condaOpts.${name}`,
  ),
];

test('the page on fields covers everything that clients send', () => {
  const page = readFileSync(new URL('../../docs/fields.md', import.meta.url), 'utf8');
  for (const field of sentByClients) {
    assert.match(page, new RegExp(`^\\| \`${field.replace(/[[\].]/g, '\\$&')}\` \\| `, 'm'), field);
  }
  for (const { path, handling } of clientFields) {
    assert.ok(page.includes(`| \`${path}\` | ${handling} |`), path);
  }
});
