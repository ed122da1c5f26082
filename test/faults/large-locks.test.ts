/** Lock files of absurd size hold nobody up, and are answered clearly. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { startCondaChannels } from '../world/conda-channels.ts';
import { pushDebianImage } from '../world/debian-image.ts';
import { boundMs } from '../world/longest-block.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { startWatchedSluice, type WatchedSluice } from '../world/watched-sluice.ts';
import { assertApiFault, call } from './http-client.ts';

const longestTurnMs = 50;
let asked = 0;
let server: WatchedSluice;
let registry: Registry;
let served: Awaited<ReturnType<typeof startCondaChannels>>;

before(async () => {
  registry = await startRegistry();
  await pushDebianImage(registry, 'debian');
  served = await startCondaChannels({ 'conda-forge': [], bioconda: [] });
  server = await startWatchedSluice({
    config: {
      builds: { conda: 'native' },
      channels: served.settings,
      limits: { builds: { anonymous: 'off' } },
      registries: { [registry.host]: { plainHttp: true } },
    },
  });
  // Code that runs for the first time is compiled, which takes time too.
  for (let round = 0; round < 5; round += 1) await ask(lockOf(2));
});

after(async () => {
  await server[Symbol.asyncDispose]();
  await served.stop();
  await registry.stop();
});

/** An explicit lock file with packages that the channel does not have. */
function lockOf(count: number): string {
  const urls = Array.from({ length: count }, (_, at) => {
    const hash = `${at}`.padStart(32, '0');
    return `${served.url}/conda-forge/linux-64/package-${at}-1.0-0.conda#${hash}`;
  });
  return `@EXPLICIT\n${urls.join('\n')}\n`;
}

function ask(lock: string) {
  asked += 1;
  const path = `/conda-forge/${asked}/conda.lock`;
  served.files.set(path, Buffer.from(lock));
  return call(`${server.sluice.url}/v1alpha2/container`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      containerPlatform: 'linux/amd64',
      packages: {
        ...{ type: 'CONDA', entries: [`${served.url}${path}`] },
        condaOpts: { baseImage: `${registry.host}/debian:1`, basePackages: '' },
      },
    }),
  });
}

/** Returns the response, once the event loop has proved to be free all the time. */
async function watched<R>(work: () => Promise<R>): Promise<R> {
  const longest: number[] = [];
  for (let tried = 0; tried < 3; tried += 1) {
    await server.turns();
    const result = await work();
    const { longestMs } = await server.turns();
    if (longestMs <= boundMs(longestTurnMs)) return result;
    longest.push(longestMs);
  }
  return assert.fail(`holds the event loop for ${longest} ms`);
}

test('a lock file of 50 MB is refused, at its address and in the request', async () => {
  const lock = lockOf(500_000);
  assert.ok(lock.length > 50_000_000);
  const atAddress = await watched(() => ask(lock));
  assertApiFault(atAddress, 400, /^The lock file is larger than the 4194304 bytes/);
  const inRequest = await watched(() =>
    call(`${server.sluice.url}/v1alpha2/container`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({
        packages: { type: 'CONDA', environment: Buffer.from(lock).toString('base64') },
      }),
    }),
  );
  assertApiFault(inRequest, 413, /^The body is larger than/);
});

test('a lock file of 10,000 packages is refused before any of them is fetched', async () => {
  const response = await watched(() => ask(lockOf(10_000)));
  assert.deepEqual(
    served.requests.filter(path => /package-\d{3,}/.test(path)),
    [],
  );
  assertApiFault(
    response,
    400,
    /The environment has 10000 packages, at most 1000 are allowed: request fewer/,
  );
});

test('a lock file of 10,001 packages is refused', async () => {
  assertApiFault(await watched(() => ask(lockOf(10_001))), 400, /more than 10000 packages/);
});
