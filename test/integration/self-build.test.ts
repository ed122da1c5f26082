/**
 * Sluice builds Sluice: the project's own Dockerfile, as its users build it, but on a base image that is
 * made here. Its `npm ci` asks the registry of packages that the machine uses.
 */
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { chown, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { requireAccessible, startBrowser } from '../pages/browser-world.ts';
import { startDocker } from '../world/docker.ts';
import { freePort } from '../world/free-port.ts';
import { sluiceImage, sluiceImageName } from '../world/own-image.ts';
import { assertSuccess } from './served.ts';

const project = fileURLToPath(new URL('../..', import.meta.url));
const patienceMs = 120_000;

test('Sluice builds Sluice, and the result is ready to serve, with its pages', async () => {
  const { file, log: buildLog } = await sluiceImage();
  assert.match(buildLog, /RUN npm ci/);
  assert.doesNotMatch(
    buildLog,
    /transferring context: (?:\d{2,}\.\d+M|[\d.]+G)B/,
    'no node_modules',
  );

  await using docker = await startDocker({ suite: 'trixie' });
  await docker.load([file]);
  const port = await freePort();
  const listen = `127.0.0.1:${port}`;
  const variables = ['-e', `SLUICE_LISTEN=${listen}`, '-e', 'SLUICE_BUILDKIT=off'];
  const start = ['run', '--network', 'host', ...variables];
  // Docker makes a directory that does not exist, for root.
  const refused = await docker.docker([...start, '-v', '/tmp/absent:/data', sluiceImageName]);
  assert.match(refused.stdout, /1000:1000, may not use .*docker run --user UID:GID/);
  const state = join(docker.root.directory, 'tmp/state');
  await mkdir(state);
  await chown(state, 1000, 1000);
  const run = [...start, '--detach', '-v', '/tmp/state:/data', sluiceImageName];
  const container = assertSuccess(await docker.docker(run)).trim();
  const response = await untilReady(`http://${listen}/readyz`);
  const log = async () => JSON.stringify(await docker.docker(['logs', container]));
  assert.equal(response?.status, 200, await log());
  const { version } = JSON.parse(readFileSync(`${project}/package.json`, 'utf8'));
  const info = (await (await fetch(`http://${listen}/service-info`)).json()) as {
    serviceInfo: { version: string };
  };
  assert.equal(info.serviceInfo.version, version);
  await using browser = await startBrowser();
  await using tab = await browser.open();
  await tab.page.goto(`http://${listen}/`);
  await tab.page.locator('#q:focus').waitFor();
  await requireAccessible(tab.page);
  await tab.page.getByRole('link', { name: 'API' }).click();
  await tab.page.locator('#api:not([hidden]) .opblock').first().waitFor();
  const user = assertSuccess(await docker.docker(['exec', container, 'id', '-u']));
  assert.equal(user, '1000\n');
  assertSuccess(await docker.docker(['stop', '--time', '60', container]));
  const exit = ['inspect', '--format', '{{.State.ExitCode}}', container];
  assert.equal(assertSuccess(await docker.docker(exit)), '0\n', await log());
  assert.ok(existsSync(join(state, 'sluice.db')));
  const changes = assertSuccess(await docker.docker(['diff', container])).split('\n');
  const compiled = changes.filter(line => line.startsWith('A /sluice/node_modules/.cache/'));
  assert.ok(compiled.length < 100, `${compiled.length} modules were compiled by the container`);
});

async function untilReady(url: string): Promise<Response | undefined> {
  for (const end = Date.now() + patienceMs; Date.now() < end; await sleep(200)) {
    const response = await fetch(url).catch(() => undefined);
    if (response?.ok) return response;
  }
  return undefined;
}
