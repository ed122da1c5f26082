import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { after, before, test } from 'node:test';
import { hash as bcrypt } from '@node-rs/bcrypt';
import { digestOf } from '../../src/oci/digest.ts';
import { assertRegistryFault, call } from '../faults/http-client.ts';
import { eventually } from '../world/eventually.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';
import { makeTempDir } from '../world/temp-dir.ts';
import { admin, basic, expect, Repository } from './push-client.ts';

let sluice: Sluice;
const ci = basic('ci', 'word');
const reader = basic('reader', 'read');
const layer = Buffer.from('a layer');

before(async () => {
  sluice = await startSluice({
    config: {
      accounts: {
        admin: 'secret',
        ci: { password: 'word', repositories: { 'team/*': 'push' } },
        reader: { password: 'read', repositories: { 'team/*': 'pull' } },
      },
    },
  });
  for (const name of ['team/app', 'secret/app', 'public/app']) {
    await new Repository(sluice, name).pushImage('1', [layer]);
  }
});
after(() => sluice?.stop());

const routes = [
  ['GET', 'manifests/1'],
  ['HEAD', 'manifests/1'],
  ['GET', 'tags/list'],
  ['GET', `referrers/sha256:${'0'.repeat(64)}`],
  ['GET', `blobs/sha256:${'0'.repeat(64)}`],
  ['POST', 'blobs/uploads/'],
  ['PATCH', 'blobs/uploads/1'],
  ['PUT', 'manifests/2'],
  ['DELETE', 'manifests/1'],
  ['DELETE', `blobs/sha256:${'0'.repeat(64)}`],
] as const;

test('a caller without a right gets the same answer whether a repository exists or not', async () => {
  for (const [headers, status] of [
    [{}, 401],
    [ci, 403],
    [reader, 403],
  ] as const) {
    for (const [method, route] of routes) {
      const responses = [];
      for (const name of ['secret/app', 'secret/none']) {
        const reply = await new Repository(sluice, name, headers).send(method, route);
        assert.equal(reply.status, status, `${method} ${route}`);
        const body = reply.body.toString().replaceAll(name, 'NAME');
        const challenge = String(reply.headers['www-authenticate']).replaceAll(name, 'NAME');
        responses.push([body.replace(/"errorId":"\w+"/, ''), challenge]);
      }
      assert.deepEqual(responses[0], responses[1]);
    }
  }
});

test('a challenge names the token service and the required scope', async () => {
  for (const [method, route, actions] of [
    ['GET', 'manifests/1', 'pull'],
    ['POST', 'blobs/uploads/', 'pull,push'],
    ['DELETE', 'manifests/1', 'delete'],
  ] as const) {
    const reply = await new Repository(sluice, 'team/app', {}).send(method, route);
    assertRegistryFault(reply, {
      status: 401,
      code: 'UNAUTHORIZED',
      message: /docker login, apptainer registry login/,
    });
    assert.equal(
      reply.headers['www-authenticate'],
      `Bearer realm="${sluice.url}/v2/token",service="${sluice.host}",scope="repository:team/app:${actions}"`,
    );
  }
});

test('each role has its rights and no more', async () => {
  for (const [headers, pull, push, remove] of [
    [admin, 200, 202, 404],
    [ci, 200, 202, 403],
    [reader, 200, 403, 403],
  ] as const) {
    const repository = new Repository(sluice, 'team/app', headers);
    expect(await repository.get('manifests/1'), pull);
    expect(await repository.send('POST', 'blobs/uploads/'), push);
    expect(await repository.send('DELETE', 'manifests/none'), remove);
  }
  const anybody = new Repository(sluice, 'public/app', {});
  expect(await anybody.get('manifests/1'), 200);
  expect(await anybody.send('POST', 'blobs/uploads/'), 401);
});

test('wrong credentials are reported, and not treated as no credentials', async () => {
  for (const headers of [
    basic('ci', 'wrong'),
    basic('nobody', 'word'),
    { authorization: 'Bearer nonsense' },
  ]) {
    const repository = new Repository(sluice, 'public/app', headers);
    const reply = await repository.get('manifests/1');
    assertRegistryFault(reply, { status: 401, code: 'UNAUTHORIZED', message: /wrong|token/ });
    assert.match(String(reply.headers['www-authenticate']), /^Bearer realm=/);
  }
});

test('a blob is mounted only from a repository that its pusher may pull', async () => {
  const secret = Buffer.from('a layer that is secret');
  expect(await new Repository(sluice, 'secret/app').pushBlob(secret), 201);
  const digest = digestOf(secret);
  for (const query of [`mount=${digest}&from=secret/app`, `mount=${digest}`]) {
    const mine = new Repository(sluice, 'team/mount', ci);
    expect(await mine.send('POST', `blobs/uploads/?${query}`), 202);
    expect(await mine.send('HEAD', `blobs/${digest}`), 404);
    const own = new Repository(sluice, 'secret/mounted');
    expect(await own.send('POST', `blobs/uploads/?${query}`), 201);
  }
});

test('an account for repositories cannot administer anything else', async () => {
  for (const [headers, status] of [
    [ci, 403],
    [admin, 200],
    [{}, 401],
  ] as const) {
    const reply = await call(`${sluice.url}/v1alpha2/metrics/pulls`, { headers });
    assert.equal(reply.status, status, reply.body.toString());
  }
});

test('an account looks into the images that it may pull, and into no others', async () => {
  const look = async (name: string, headers: Readonly<Record<string, string>>) => {
    const containerImage = `${sluice.host}/${name}:1`;
    const inspected = await call(`${sluice.url}/v1alpha1/inspect`, {
      method: 'POST',
      headers: { ...headers, 'content-type': 'application/json' },
      body: Buffer.from(JSON.stringify({ containerImage })),
    });
    const query = new URLSearchParams({ image: containerImage });
    const image = await call(`${sluice.url}/view/inspect?${query}`, { headers: { ...headers } });
    query.set('layer', digestOf(layer));
    const page = await call(`${sluice.url}/view/inspect/layer?${query}`, {
      headers: { ...headers },
    });
    return [inspected.status, image.status, page.status];
  };
  const sees = [200, 200, 200];
  const refused = [403, 403, 403];
  for (const [name, headers, statuses] of [
    ['secret/app', admin, sees],
    ['team/app', ci, sees],
    ['team/app', reader, sees],
    ['public/app', reader, sees],
    ['secret/app', reader, refused],
    ['secret/none', reader, refused],
    ['team/app', {}, refused],
    ['public/app', {}, sees],
  ] as const) {
    assert.deepEqual(await look(name, headers), statuses, `${name} ${JSON.stringify(headers)}`);
  }
});

test('an account gets containers of the images that it may pull, and of no others', async () => {
  const request = async (name: string, headers: Readonly<Record<string, string>>, path = '') => {
    const response = await call(`${sluice.url}/v1alpha2/container${path}`, {
      method: 'POST',
      headers: { ...headers, 'content-type': 'application/json' },
      body: Buffer.from(
        JSON.stringify({
          containerImage: `${sluice.host}/${name}:1`,
          containerConfig: { env: ['A=1'] },
        }),
      ),
    });
    return { status: response.status, text: response.body.toString() };
  };
  for (const [name, headers, status] of [
    ['secret/app', admin, 200],
    ['team/app', reader, 200],
    ['public/app', reader, 200],
    ['public/app', {}, 200],
    ['secret/app', reader, 403],
    ['team/app', {}, 403],
  ] as const) {
    const { status: seen, text } = await request(name, headers);
    assert.equal(seen, status, `${name} ${JSON.stringify(headers)}: ${text}`);
    if (status !== 200) continue;
    const { targetImage } = JSON.parse(text) as { targetImage: string };
    const manifest = await call(sluice.at(targetImage, 'manifests/1'), {});
    assert.equal(manifest.status, 200, manifest.body.toString());
    const { layers } = JSON.parse(manifest.body.toString()) as { layers: { digest: string }[] };
    const [first] = layers;
    assert.ok(first);
    const blob = await call(sluice.at(targetImage, `blobs/${first.digest}`), {});
    assert.deepEqual([blob.status, blob.body], [200, layer]);
  }
  const anonymous = await request('secret/app', reader);
  const none = await request('secret/none', reader);
  const withoutName = ({ text }: typeof none) =>
    text.replaceAll(/secret\/\w+/g, 'NAME').replace(/Error ID: \w+/, '');
  assert.equal(withoutName(anonymous), withoutName(none));
  assert.match(anonymous.text, /with your rights: log in with an account that may pull it/);
});

test('a container ends with the right of the account that asked for it', async () => {
  await using directory = await makeTempDir('account-right');
  const file = directory.join('accounts');
  await writeFile(file, `reader:${await bcrypt('read', 4)}`);
  await using server = await startSluice({
    config: {
      accounts: { admin: 'secret' },
      accountFiles: [{ file, repositories: { 'team/*': 'pull' } }],
      rightLife: '300ms',
    },
  });
  await new Repository(server, 'team/app').pushImage('1', [layer]);
  const response = await server.fetch('/v1alpha2/container', {
    method: 'POST',
    headers: { ...reader, 'content-type': 'application/json' },
    body: JSON.stringify({
      containerImage: `${server.host}/team/app:1`,
      containerConfig: { env: ['A=1'] },
    }),
  });
  const { targetImage } = (await response.json()) as { targetImage: string };
  const pull = async () => (await call(server.at(targetImage, 'manifests/1'), {})).status;
  assert.equal(await pull(), 200);
  await writeFile(file, '# nobody');
  await eventually('the name has ended', async () => (await pull()) === 403);
});

test('an account freezes images into the repositories that it may push to', async () => {
  const freeze = async (
    headers: Readonly<Record<string, string>>,
    buildRepository: string,
    more: object = {},
  ) => {
    const response = await sluice.fetch('/v1alpha2/container', {
      method: 'POST',
      headers: { ...headers, 'content-type': 'application/json' },
      body: JSON.stringify({
        containerImage: `${sluice.host}/team/app:1`,
        containerConfig: { env: ['A=1'] },
        freeze: true,
        buildRepository: `${sluice.host}/${buildRepository}`,
        ...more,
      }),
    });
    return { status: response.status, text: await response.text() };
  };
  const frozen = await freeze(ci, 'team/frozen');
  assert.equal(frozen.status, 200, frozen.text);
  const { targetImage } = JSON.parse(frozen.text) as { targetImage: string };
  assert.ok(targetImage.startsWith(`${sluice.host}/team/frozen`), targetImage);
  const [, repository = '', tag = ''] = /^[^/]+\/(.+):([^:]+)$/.exec(targetImage) ?? [];
  await eventually('the image is there', async () => {
    return (
      (await new Repository(sluice, repository, ci).send('GET', `manifests/${tag}`)).status === 200
    );
  });
  for (const [headers, name] of [
    [reader, 'team/frozen'],
    [ci, 'secret/frozen'],
    [ci, 'public/frozen'],
    [{}, 'team/frozen'],
  ] as const) {
    const refused = await freeze(headers, name);
    assert.equal(refused.status, 403, `${name}: ${refused.text}`);
  }
  for (const [headers, canPush] of [
    [ci, true],
    [reader, false],
  ] as const) {
    const { status, text } = await freeze(headers, 'team/frozen', { dryRun: true });
    assert.equal(status, 200, text);
    const { registries } = JSON.parse(text) as {
      registries: { repository: string; canPull: boolean; canPush?: boolean }[];
    };
    const of = (name: string) => registries.find(one => one.repository.endsWith(name));
    assert.equal(of('/team/app')?.canPull, true, text);
    assert.equal(of('/team/frozen')?.canPush, canPush, text);
  }
});
