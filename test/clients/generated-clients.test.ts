/** Clients that two generators make from the published documents compile and can call the server. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { after, before, test } from 'node:test';
import { type FaultWorld, startFaultWorld } from '../faults/fault-world.ts';
import { openWorkshop, type Workshop } from './generators.ts';

let world: FaultWorld;
let workshop: Workshop;

before(async () => {
  [world, workshop] = await Promise.all([startFaultWorld(), openWorkshop()]);
});

after(async () => {
  await world[Symbol.asyncDispose]();
  await workshop.remove();
});

/** What each client prints. */
interface Found {
  readonly level: string;
  readonly state: string;
  readonly failure: string;
  readonly total: number;
  readonly user: string;
}

function assertFound(output: string, email: string): void {
  const found: Found = JSON.parse(output);
  assert.match(found.level, /^\d+\.\d+\.\d+$/);
  assert.equal(found.state, 'DONE');
  assert.match(found.failure, /Error ID: \w+$/);
  assert.equal(found.user, email);
  assert.ok(found.total >= 1);
}

const authorization = `Basic ${Buffer.from('admin:open sesame').toString('base64')}`;

test('openapi-typescript and openapi-fetch', async () => {
  const image = world.upstreams.relay.image('generated/types');
  for (const name of ['openapi', 'platform-openapi']) {
    await workshop.run('openapi-typescript', `${name}.json`, '-o', `${name}.ts`);
  }
  const output = await workshop.use(
    'types-client.ts',
    `import createClient from 'openapi-fetch';
import type { paths as Api } from './openapi.ts';
import type { paths as PlatformApi } from './platform-openapi.ts';

declare const process: { readonly argv: string[] };
const [server, containerImage] = process.argv.slice(2);
const api = createClient<Api>({ baseUrl: server });
const platform = createClient<PlatformApi>({
  baseUrl: server + '/platform',
  headers: { authorization: '${authorization}' },
});
const info = await api.GET('/service-info');
const made = await api.POST('/v1alpha2/container', { body: { containerImage } });
const token: string = made.data!.requestId;
const state = await api.GET('/v1alpha2/container/{token}/status', { params: { path: { token } } });
const none = await api.GET('/v1alpha1/builds/{buildId}', { params: { path: { buildId: 'none' } } });
const failure: string = none.error!.message;
const added = await platform.POST('/users', { body: { email: 'types@example.org' } });
const id: number = added.data!.user.id;
const users = await platform.GET('/users', { params: { query: { max: 1, email: 'types@example.org' } } });
await platform.DELETE('/users/{userId}', { params: { path: { userId: id } } });
console.log(JSON.stringify({
  level: info.data!.serviceInfo.apiLevel,
  state: state.data!.status,
  failure,
  total: users.data!.totalSize,
  user: users.data!.users[0]!.email,
}));
`,
    world.sluice.url,
    image.name,
  );
  assertFound(output, 'types@example.org');
});

test('@hey-api/openapi-ts', async () => {
  const image = world.upstreams.relay.image('generated/functions');
  for (const name of ['openapi', 'platform-openapi']) {
    const config = {
      input: `${name}.json`,
      output: { path: `functions-${name}`, module: { extension: '.ts' } },
      plugins: ['@hey-api/client-fetch', '@hey-api/typescript', '@hey-api/sdk'],
    };
    const file = workshop.join(`${name}.config.mjs`);
    await writeFile(file, `export default ${JSON.stringify(config)};`);
    await workshop.run('openapi-ts', '-f', file);
  }
  const output = await workshop.use(
    'functions-client.ts',
    `import * as api from './functions-openapi/index.ts';
import { client } from './functions-openapi/client.gen.ts';
import * as platform from './functions-platform-openapi/index.ts';
import { client as platformClient } from './functions-platform-openapi/client.gen.ts';

declare const process: { readonly argv: string[] };
const [server, containerImage] = process.argv.slice(2);
client.setConfig({ baseUrl: server });
platformClient.setConfig({
  baseUrl: server + '/platform',
  headers: { authorization: '${authorization}' },
});
const info = await api.getServiceInfo();
const made = await api.requestContainer({ body: { containerImage } });
const token: string = made.data!.requestId;
const state = await api.getContainerStatus({ path: { token } });
const none = await api.getBuild({ path: { buildId: 'none' } });
const failure: string = none.error!.message;
const added = await platform.addUser({ body: { email: 'functions@example.org' } });
const userId: number = added.data!.user.id;
const users = await platform.listUsers({ query: { max: 1, email: 'functions@example.org' } });
await platform.removeUser({ path: { userId } });
console.log(JSON.stringify({
  level: info.data!.serviceInfo.apiLevel,
  state: state.data!.status,
  failure,
  total: users.data!.totalSize,
  user: users.data!.users[0]!.email,
}));
`,
    world.sluice.url,
    image.name,
  );
  assertFound(output, 'functions@example.org');
});
