/** A server on a machine whose wall clock is wrong for a while. */
import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { digestOf } from '../../src/oci/digest.ts';
import { administered, expect, Repository } from '../hosted/push-client.ts';
import { eventually } from '../world/eventually.ts';
import { shiftedClock } from '../world/shifted-clock.ts';
import { type ContainerResponse, type Sluice, startSluice } from '../world/sluice.ts';
import { sluiceCommand } from '../world/sluice-command.ts';
import { makeTempDir } from '../world/temp-dir.ts';
import { call } from './http-client.ts';
import { emptyLayer, pattern, startScriptedUpstream } from './scripted-upstream.ts';

const yearHours = 365 * 24;
const hourMs = 3_600_000;
const intervalMs = 200;

async function contents(sluice: Sluice): Promise<string[]> {
  return (await readdir(join(sluice.data, 'content/blobs/sha256'), { recursive: true })).sort();
}

const pull = (sluice: Sluice, { targetImage }: ContainerResponse) =>
  call(sluice.at(targetImage, `manifests/${targetImage.split(':').at(-1)}`));

test('a clock one year ahead deletes nothing, and work continues when the clock is right again', async () => {
  await using upstream = await startScriptedUpstream();
  await using directory = await makeTempDir('clock');
  const clock = shiftedClock(directory);
  const config = {
    ...administered,
    registries: { [upstream.host]: { plainHttp: true } },
    sweep: { interval: `${intervalMs}ms`, grace: '24h' },
  };
  const data = directory.join('data');
  await using sluice = await startSluice({ config, data, env: clock.env });
  const image = upstream.image('team/app', [pattern(1000, 'base')]);
  const body = {
    containerImage: image.name,
    containerConfig: {
      env: ['A=1'],
      layers: [{ location: `data:${emptyLayer.toString('base64')}` }],
    },
  };
  const response = await sluice.request(body);
  const repository = new Repository(sluice, 'team/app');
  const blob = pattern(5000, 'waits for its manifest');
  expect(await repository.pushBlob(blob), 201);
  const before = await contents(sluice);
  const logged = (text: string) =>
    eventually(`the log has: ${text}`, () => sluice.output().includes(text));
  await logged('"msg":"swept"');

  clock.shift(yearHours);
  await logged('the clock jumped ahead');
  expect(await pull(sluice, response), 404);
  await sleep(5 * intervalMs);
  assert.deepEqual(await contents(sluice), before);
  const gc = await sluiceCommand(['gc', '--data', sluice.data], clock.env);
  assert.equal(gc.code, 1);
  assert.match(gc.stderr, /jumped ahead.*--trust-clock/);
  const future = await sluice.request({ ...body, containerConfig: { env: ['A=2'] } });
  assert.ok(Date.parse(future.expiration) > Date.now() + 300 * 24 * hourMs);

  clock.shift(0);
  await logged('the clock was set back');
  // One request made in between is still in memory; the first one was forgotten there, and is on the disk.
  expect(await pull(sluice, response), 200);
  await eventually('a sweep after that', () => {
    const swept = sluice.output().lastIndexOf('"msg":"swept"');
    return swept > sluice.output().lastIndexOf('the clock was set back');
  });
  expect(await repository.get(`blobs/${digestOf(blob)}`), 200);

  // A request from the future ends as if it was made now.
  await sluice.stop();
  await using again = await startSluice({ config, data });
  await eventually('its end is near', async () => {
    const described = await again.fetch(`/v1alpha2/container/${future.containerToken}`);
    const { expiration } = (await described.json()) as { expiration: string };
    return Date.parse(expiration) < Date.now() + 37 * hourMs;
  });
});

test('a clock that is set back two hours delays nobody', async () => {
  await using upstream = await startScriptedUpstream();
  await using directory = await makeTempDir('clock');
  const clock = shiftedClock(directory);
  await using sluice = await startSluice({
    config: {
      registries: { [upstream.host]: { plainHttp: true } },
      limits: {
        requests: { anonymous: '4/hour' },
        pulls: { anonymous: '4/hour' },
        logins: '4/hour',
      },
      accounts: { admin: 'secret' },
    },
    env: clock.env,
  });
  const body = { containerImage: upstream.image('team/app', [pattern(1000, 'base')]).name };
  const wrong = { authorization: `Basic ${Buffer.from('admin:wrong').toString('base64')}` };
  const right = { authorization: `Basic ${Buffer.from('admin:secret').toString('base64')}` };
  const metrics = (headers: Record<string, string>) =>
    call(`${sluice.url}/v1alpha2/metrics/pulls`, { headers });
  expect(await pull(sluice, await sluice.request(body)), 200);
  expect(await metrics(wrong), 401);

  clock.shift(-2);
  const response = await sluice.request(body);
  expect(await pull(sluice, response), 200);
  expect(await metrics(right), 200);
  const states = await sluice.fetch(`/v1alpha2/container/${response.containerToken}/status`);
  const { duration } = (await states.json()) as { duration: number };
  assert.ok(duration >= 0);
});
