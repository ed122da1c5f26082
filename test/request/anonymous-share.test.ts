/** Callers without a login have limited disk space, which is freed again. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { pack } from 'tar-stream';
import { digestOf } from '../../src/oci/digest.ts';
import { call } from '../faults/http-client.ts';
import { pattern, startScriptedUpstream } from '../faults/scripted-upstream.ts';
import { admin, administered, expect } from '../hosted/push-client.ts';
import { eventually } from '../world/eventually.ts';
import { type ContainerResponse, type Sluice, startSluice } from '../world/sluice.ts';
import { sluiceCommand } from '../world/sluice-command.ts';

/** A layer of about so many bytes, which no other number gives. */
async function layer(number: number, bytes: number): Promise<string> {
  const tar = pack();
  tar.entry({ name: `file${number}`, mtime: new Date(0) }, pattern(bytes, `layer ${number}`));
  tar.finalize();
  return `data:${gzipSync(await buffer(tar), { level: 0 }).toString('base64')}`;
}

async function files(sluice: Sluice): Promise<number> {
  const base = join(sluice.data, 'content/blobs/sha256');
  let count = 0;
  for (const shard of await readdir(base)) count += (await readdir(join(base, shard))).length;
  return count;
}

const post = (sluice: Sluice, body: object, address = '192.0.2.1') =>
  sluice.fetch('/v1alpha2/container', {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-forwarded-for': address },
    body: JSON.stringify(body),
  });

async function refused(response: Response, status: number, message: RegExp): Promise<void> {
  const body = (await response.json()) as { message: string };
  assert.equal(response.status, status, body.message);
  assert.match(body.message, message);
  assert.ok(Number(response.headers.get('retry-after')) > 0);
}

const start = async (anonymous: object, more: object = {}) => {
  const upstream = await startScriptedUpstream();
  const image = upstream.image('team/app', [pattern(1000, 'base')]).name;
  const sluice = await startSluice({
    config: {
      ...administered,
      trustedProxies: 1,
      registries: { [upstream.host]: { plainHttp: true } },
      anonymous,
      ...more,
    },
  });
  return {
    ...{ sluice, image },
    async [Symbol.asyncDispose]() {
      await sluice.stop();
      await upstream[Symbol.asyncDispose]();
    },
  };
};

test('bytes are counted for each network and in total', async () => {
  await using world = await start({ maxNetworkBytes: '1 MiB', maxBytes: '2500 KiB' });
  const { sluice, image } = world;
  const ask = async (number: number, address?: string) => {
    const layers = [{ location: await layer(number, 600_000) }];
    return post(sluice, { containerImage: image, containerConfig: { layers } }, address);
  };
  assert.equal((await ask(1)).status, 200);
  assert.equal((await ask(1)).status, 200, 'stored content needs no more space');
  const kept = await files(sluice);
  await refused(await ask(2), 429, /^192\.0\.2\.1 already has 1048576 bytes here.*maxNetworkBytes/);
  assert.equal(await files(sluice), kept, 'nothing is left of the refused request');

  // All addresses of a /64 are one network.
  assert.equal((await ask(3, '2001:db8::1')).status, 200);
  await refused(await ask(4, '2001:db8::2'), 429, /^2001:db8:0:0::\/64 already has/);
  assert.equal((await ask(5, '192.0.2.2')).status, 200);
  assert.equal((await ask(6, '192.0.2.3')).status, 200);
  await refused(await ask(7, '192.0.2.4'), 507, /keeps 2560000 bytes.*anonymous\.maxBytes/);
});

test('a layer that a sweep removes no longer counts', async () => {
  await using world = await start({ maxNetworkBytes: '1 MiB' });
  const { sluice, image } = world;
  const ask = async (number: number) => {
    const layers = [{ location: await layer(number, 900_000) }];
    return post(sluice, { containerImage: image, containerConfig: { layers } });
  };
  const { containerToken } = (await (await ask(1)).json()) as ContainerResponse;
  await refused(await ask(2), 429, /already has \d+ bytes/);
  const url = `${sluice.url}/container-token/${containerToken}`;
  expect(await call(url, { method: 'DELETE', headers: admin }), 200);
  const swept = await sluiceCommand(['gc', '--data', sluice.data], { SLUICE_SWEEP_GRACE: '0s' });
  assert.equal(swept.code, 0, swept.stderr);
  assert.equal((await ask(2)).status, 200);
});

test('files and requests are counted, except those of callers with an access token', async () => {
  await using world = await start({ maxNetworkFiles: 12, maxNetworkRequests: 4 });
  const { sluice, image } = world;
  const user = ['user', 'add', 'ada@example.org', '--data', sluice.data];
  assert.equal((await sluiceCommand(user)).code, 0);
  const made = await sluiceCommand([
    ...['token', 'add', '--user', 'ada@example.org', '--name', 'x', '--data', sluice.data],
  ]);
  const platformAccessToken = made.stdout.trim().split('\n').at(-1);
  const ask = (value: string, more: object = {}, address?: string) =>
    post(
      sluice,
      { containerImage: image, containerConfig: { env: [`A=${value}`] }, ...more },
      address,
    );
  for (let number = 0; number < 4; number += 1) {
    assert.equal((await ask(`${number}`)).status, 200);
  }
  await refused(await ask('4'), 429, /already has 4 container requests/);
  for (let number = 0; number < 12; number += 1) {
    const response = await ask(`known ${number}`, { platformAccessToken });
    assert.equal(response.status, 200, await response.text());
  }
  const other = await Promise.all(
    Array.from({ length: 12 }, (_, number) => ask(`other ${number}`, {}, '192.0.2.9')),
  );
  const bad = other.filter(({ status }) => status !== 200);
  assert.ok(bad.length > 0, 'each has its own files');
  for (const response of bad) assert.equal(response.status, 429);
});

test('an inspection or dry run leaves nothing on the disk', async () => {
  await using world = await start({});
  const { sluice, image } = world;
  const inspected = await sluice.fetch('/v1alpha1/inspect', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ containerImage: image }),
  });
  assert.equal(inspected.status, 200, await inspected.text());
  const tried = await post(sluice, { containerImage: image, dryRun: true });
  assert.equal(tried.status, 200, await tried.text());
  await assert.rejects(files(sluice), /ENOENT/);
});

test('a blob that the cache has counts when a request keeps it', async () => {
  await using upstream = await startScriptedUpstream();
  const known = await layer(2, 900_000);
  const cached = Buffer.from(known.slice('data:'.length), 'base64');
  const image = upstream.image('team/app', [cached]);
  await using sluice = await startSluice({
    config: {
      ...administered,
      trustedProxies: 1,
      registries: { [upstream.host]: { plainHttp: true, blobs: 'cache' } },
      anonymous: { maxNetworkBytes: '1 MiB' },
    },
  });
  const ask = async (location: string | undefined) => {
    const layers = location === undefined ? [] : [{ location }];
    return post(sluice, { containerImage: image.name, containerConfig: { layers } });
  };
  const { targetImage } = (await (await ask(undefined)).json()) as ContainerResponse;
  const blob = await fetch(sluice.at(targetImage, `blobs/${digestOf(cached)}`));
  assert.equal((await blob.arrayBuffer()).byteLength > 900_000, true);
  const hex = digestOf(cached).slice('sha256:'.length);
  const path = join(sluice.data, 'content/blobs/sha256', hex.slice(0, 2), hex);
  await eventually('the blob is cached', () => existsSync(path));
  assert.equal((await ask(known)).status, 200);
  await refused(await ask(await layer(3, 900_000)), 429, /already has \d+ bytes/);
});
