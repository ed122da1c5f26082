/** `npm start` as a newcomer runs it, and the end of the server. */
import assert from 'node:assert/strict';
import { createHash, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { get, type IncomingMessage } from 'node:http';
import { homedir } from 'node:os';
import { dirname } from 'node:path';
import { test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { stringify } from 'yaml';
import { pushCorpus } from '../corpus/corpus.ts';
import { type Daemon, startDaemon, waitForLine } from '../world/daemon.ts';
import { eventually } from '../world/eventually.ts';
import { startRegistry } from '../world/registry.ts';
import { startSluice } from '../world/sluice.ts';
import { sluiceCommand } from '../world/sluice-command.ts';
import { makeTempDir } from '../world/temp-dir.ts';
import { goCaches, requireCommand } from '../world/tools.ts';
import { plainRegistries } from './served.ts';

const project = fileURLToPath(new URL('../..', import.meta.url));
// Without the folder of the project's own Node, which `node --test` runs under.
const machinePath = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

interface Started {
  readonly daemon: Daemon;
  readonly url: string;
}

async function npmStart(env: Record<string, string>): Promise<Started> {
  const daemon = startDaemon('npm', ['start'], {
    cwd: project,
    startsOthers: true,
    // Nothing is installed here: another test covers that.
    env: { PATH: machinePath, SLUICE_BUILDKIT: 'off', SLUICE_BUILDS_UV: 'off', ...env },
  });
  try {
    const [, url = ''] = await waitForLine(daemon, /"url":"([^"]+)"/);
    return { daemon, url };
  } catch (error) {
    await daemon.stop();
    throw error;
  }
}

async function request(url: string, image: string): Promise<string> {
  const response = await fetch(`${url}/v1alpha2/container`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ containerImage: image, containerConfig: { env: ['A=1'] } }),
  });
  assert.equal(response.status, 200);
  const { targetImage } = (await response.json()) as { targetImage: string };
  return `/v2${targetImage.slice(targetImage.indexOf('/'), targetImage.lastIndexOf(':'))}`;
}

test('npm start: ready from an empty directory, drains on SIGTERM, and knows its tokens again', async () => {
  await using registry = await startRegistry();
  const pushed = await pushCorpus(registry, ['big:64m']);
  const { reference, image } = pushed.get('big:64m') ?? assert.fail();
  const layer = image.blobs[1] ?? assert.fail();
  await using directory = await makeTempDir('npm-start');
  const configFile = directory.join('sluice.yaml');
  await writeFile(configFile, stringify(plainRegistries(registry.host)));
  const env = {
    SLUICE_CONFIG: configFile,
    SLUICE_DATA: directory.join('not/there/yet'),
    SLUICE_LISTEN: '127.0.0.1:0',
  };
  const first = await npmStart(env);
  let path: string;
  try {
    const { url, daemon } = first;
    assert.equal((await fetch(`${url}/readyz`)).status, 200);
    path = await request(url, reference);

    // A client that has read a little and is slow with the rest.
    const pull = get(`${url}${path}/blobs/${layer.digest}`, { agent: false });
    const [transfer] = (await once(pull, 'response')) as [IncomingMessage];
    const hash = createHash('sha256');
    const [head] = await once(transfer, 'data');
    transfer.pause();
    hash.update(head);
    const stopping = waitForLine(daemon, /"msg":"stopping/);
    daemon.process.kill('SIGTERM');
    await stopping;
    const refused = await fetch(`${url}/readyz`).then(
      ({ status }) => status,
      () => 'refused',
    );
    assert.ok(refused === 503 || refused === 'refused', String(refused));
    await setTimeout(500);
    assert.equal(daemon.process.exitCode, null, 'the transfer keeps it running');
    for await (const chunk of transfer) hash.update(chunk);
    assert.equal(`sha256:${hash.digest('hex')}`, layer.digest);
    await daemon.ended;
    assert.equal(daemon.process.exitCode, 0, daemon.output());
    assert.match(daemon.output(), /"msg":"stopped"/);
  } finally {
    await first.daemon.stop();
  }

  const second = await npmStart(env);
  try {
    const response = await fetch(`${second.url}${path}/manifests/64m`);
    assert.equal(response.status, 200);
    const { config } = (await response.json()) as { config: { digest: string } };
    const served = await fetch(`${second.url}${path}/blobs/${config.digest}`);
    const { config: runtime } = (await served.json()) as { config: { Env: string[] } };
    assert.ok(runtime.Env.includes('A=1'));
  } finally {
    await second.daemon.stop();
  }
  assert.equal(second.daemon.process.exitCode, 0);
});

test('the log consists of JSON lines when a client disconnects during a transfer', async () => {
  await using registry = await startRegistry();
  const pushed = await pushCorpus(registry, ['big:64m']);
  const { reference, image } = pushed.get('big:64m') ?? assert.fail();
  await using sluice = await startSluice({ config: plainRegistries(registry.host) });
  const { targetImage } = await sluice.request({ containerImage: reference });
  const url = sluice.at(targetImage, `blobs/${image.blobs[1]?.digest}`);
  const pull = get(url, { agent: false });
  const [transfer] = (await once(pull, 'response')) as [IncomingMessage];
  await once(transfer, 'data');
  transfer.once('error', () => {});
  transfer.socket.resetAndDestroy();
  const isTold = async () => (await sluice.requests()).some(({ aborted }) => aborted);
  await eventually('it is in the log', isTold);
  for (const line of sluice.output().trim().split('\n')) {
    assert.doesNotThrow(() => JSON.parse(line), line);
  }
});

test('npm start without a builder installs one, and builds wait for it', async () => {
  await using registry = await startRegistry();
  const pushed = await pushCorpus(registry, ['busybox:oci']);
  await using directory = await makeTempDir('npm-start');
  const configFile = directory.join('sluice.yaml');
  await writeFile(configFile, stringify(plainRegistries(registry.host)));
  const { daemon, url } = await npmStart({
    PATH: `${machinePath}:${dirname(requireCommand('go'))}`,
    HOME: homedir(),
    ...goCaches(),
    SLUICE_BUILDKIT: '',
    SLUICE_CONFIG: configFile,
    SLUICE_DATA: directory.join('data'),
    SLUICE_LISTEN: '127.0.0.1:0',
  });
  try {
    const dockerfile = `FROM ${pushed.get('busybox:oci')?.reference}\nRUN echo ${randomUUID()}\n`;
    const response = await fetch(`${url}/v1alpha2/container`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ containerFile: Buffer.from(dockerfile).toString('base64') }),
    });
    assert.equal(response.status, 200);
    const { buildId } = (await response.json()) as { buildId: string };
    for (let tries = 0; ; tries += 1) {
      const build = await (await fetch(`${url}/v1alpha1/builds/${buildId}/status`)).json();
      const { status, succeeded } = build as { status: string; succeeded?: boolean };
      if (status === 'COMPLETED') {
        assert.equal(succeeded, true, daemon.output());
        break;
      }
      assert.ok(tries < 600, daemon.output());
      await setTimeout(1000);
    }
  } finally {
    await daemon.stop();
  }
});

test('a data directory that cannot be created is reported, and prevents the start', async () => {
  const result = await sluiceCommand(['serve'], {
    SLUICE_DATA: '/proc/sluice',
    SLUICE_LISTEN: '127.0.0.1:0',
    SLUICE_BUILDKIT: 'off',
  });
  assert.equal(result.code, 1);
  assert.match(result.stdout, /The data directory \/proc\/sluice cannot be created .*SLUICE_DATA/);
});
