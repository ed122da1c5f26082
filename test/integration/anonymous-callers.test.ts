/** Builds of callers without a login: only where they cannot reach the server's network. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, globSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { mkdir, symlink } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { basename, delimiter } from 'node:path';
import { test } from 'node:test';
import { removeControlGroup } from '../../src/builds/builder/contained/control-group.ts';
import { pushCorpus } from '../corpus/corpus.ts';
import { startBuildkitd } from '../world/buildkitd.ts';
import { eventually } from '../world/eventually.ts';
import { newAccessToken } from '../world/platform-user.ts';
import { startRegistry } from '../world/registry.ts';
import { type Sluice, type SluiceOptions, startSluice } from '../world/sluice.ts';
import { makeTempDir } from '../world/temp-dir.ts';
import { buildkitDirectory, requireCommand } from '../world/tools.ts';
import { plainRegistries } from './served.ts';

const administrator = { name: 'admin', password: 'secret' };
const accounts = { [administrator.name]: administrator.password };

/** A server that starts its builder by itself. */
function withOwnBuilder(registryHost: string, path = process.env.PATH ?? ''): SluiceOptions {
  return {
    config: { accounts, ...plainRegistries(registryHost) },
    env: {
      PATH: [buildkitDirectory(), path].join(delimiter),
      SLUICE_BUILDKIT: '',
      SLUICE_BUILDS_OPEN_BUILDERS: '',
      SLUICE_BUILDS_BUILDER_DISK: '2 GiB',
    },
  };
}

interface BuildResponse {
  readonly status: number;
  readonly message: string;
  readonly buildId: string;
  readonly targetImage: string;
}

async function ask(sluice: Sluice, dockerfile: string, token?: string): Promise<BuildResponse> {
  const response = await sluice.fetch('/v1alpha2/container', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      containerFile: Buffer.from(dockerfile).toString('base64'),
      ...(token === undefined ? {} : { towerAccessToken: token }),
    }),
  });
  return { ...((await response.json()) as BuildResponse), status: response.status };
}

/** A web server that redirects `/<host>` to the metrics of that host. */
async function startRedirects() {
  const paths: string[] = [];
  const server = createServer(({ url = '' }, response) => {
    paths.push(url);
    response.writeHead(302, { location: `http:/${url}/metrics` }).end();
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    host: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    paths,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      server.close();
    },
  };
}

/** The log of a finished build. */
async function logOf(sluice: Sluice, { buildId, message }: BuildResponse): Promise<string> {
  assert.ok(buildId, message);
  return (await sluice.fetch(`/v1alpha1/builds/${buildId}/logs?follow=true`)).text();
}

test('a caller without a login builds and pulls, and reaches neither the server nor another registry', async () => {
  for (const name of ['slirp4netns', 'nft', 'mkfs.ext4']) requireCommand(name);
  await using registry = await startRegistry();
  const base = (await pushCorpus(registry, ['busybox:oci'])).get('busybox:oci')?.reference;
  await using web = await startRedirects();
  const options = withOwnBuilder(registry.host);
  await using sluice = await startSluice({
    ...options,
    config: { ...options.config, builds: { privateHosts: [web.host] } },
  });
  const probe = [sluice.host, registry.host]
    .map(host => host.split(':'))
    .map(([host, port]) => `nc -w 3 ${host} ${port} < /dev/null && echo "open to ${port}"`);
  const built = await ask(
    sluice,
    `FROM ${base}\nRUN echo ${randomUUID()}; ${probe.join('; ')}; true`,
  );
  assert.equal(built.status, 200, built.message);
  const log = await logOf(sluice, built);
  assert.match(log, /The build succeeded/);
  assert.doesNotMatch(log, /^#\d+ [\d.]+ open to/m);
  const manifest = await fetch(sluice.at(built.targetImage, 'manifests/latest'), {
    headers: { accept: 'application/vnd.oci.image.manifest.v1+json' },
  });
  assert.ok([200, 404].includes(manifest.status));

  // The builder itself reaches the server.
  const redirected = await ask(
    sluice,
    `FROM ${base}\nADD http://${web.host}/${sluice.host} /x\nRUN cat /x; echo ${randomUUID()}\n`,
  );
  const redirectedLog = await logOf(sluice, redirected);
  assert.match(redirectedLog, /invalid response status 403/);
  assert.deepEqual(web.paths, [`/${sluice.host}`]);

  const refused = {
    [`http://${sluice.host}/metrics`]: /ADD from 127\.0\.0\.1:\d+ is refused: it is at a loopback/,
    [`http://${registry.host}/v2/`]: /ADD from 127\.0\.0\.1:\d+ is refused/,
    'http://169.254.169.254/latest/meta-data/': /ADD from 169\.254\.169\.254 is refused/,
    'http://name:word@10.0.0.1/file': /ADD from 10\.0\.0\.1 is refused/,
    'http://[::1]/file': /ADD from \[::1\] is refused/,
    'http://localhost/file': /ADD from localhost is refused/,
    'https://192.168.0.1/team/project.git': /ADD from 192\.168\.0\.1 is refused/,
  };
  for (const [url, message] of Object.entries(refused)) {
    const response = await ask(sluice, `FROM ${base}\nADD ${url} /x\nRUN echo ${randomUUID()}\n`);
    assert.match(await logOf(sluice, response), message, url);
  }

  // A process that is not the builder's keeps its control group busy.
  const { group } = JSON.parse(readFileSync(`${sluice.data}/buildkit/running.json`, 'utf8'));
  const places = globSync(`/sys/fs/cgroup/{,pids/}${group}/`);
  const alien = spawn('sleep', ['600']);
  const child = places.map(place => mkdtempSync(`${place}/alien-`));
  try {
    for (const place of child) writeFileSync(`${place}/cgroup.procs`, String(alien.pid));
    const ended = once(sluice.process, 'exit');
    sluice.process.kill('SIGINT');
    assert.deepEqual(await ended, [0, null]);
    assert.match(sluice.output(), /control group of the builder cannot be removed/);
    assert.match(sluice.output(), /"msg":"stopped"/);
    assert.equal(existsSync(`${sluice.data}/sluice.db-wal`), false, 'the database was closed');
  } finally {
    const gone = once(alien, 'exit');
    alien.kill('SIGKILL');
    await gone;
    await removeControlGroup(group);
  }
});

test('if the builder cannot be contained, callers without a login are refused, and the log names the missing packages', async () => {
  await using registry = await startRegistry();
  const base = (await pushCorpus(registry, ['busybox:oci'])).get('busybox:oci')?.reference;
  await using directory = await makeTempDir('path');
  await mkdir(directory.join('bin'));
  // The requirements of the builder, without those of its containment.
  for (const name of ['setpriv', 'unshare', 'nsenter', 'flock', 'mount', 'mkfs.ext4', 'sh']) {
    const path = requireCommand(name);
    await symlink(path, directory.join('bin', basename(path)));
  }
  await using sluice = await startSluice(withOwnBuilder(registry.host, directory.join('bin')));
  const dockerfile = () => `FROM ${base}\nRUN echo ${randomUUID()}\n`;
  const anonymous = await ask(sluice, dockerfile());
  assert.equal(anonymous.status, 401);
  assert.match(anonymous.message, /builds only for callers with a login/);
  const reason =
    /builds of callers without a login are off: .*slirp4netns .*apt-get install .*slirp4netns/;
  await eventually('the log has the reason', () => reason.test(sluice.output()));
  const token = await newAccessToken(sluice, administrator, 'ada@example.com');
  const known = await ask(sluice, dockerfile(), token);
  assert.equal(known.status, 200, known.message);
  assert.match(await logOf(sluice, known), /The build succeeded/);
});

test("callers without a login use an operator's builder only if it is listed", async () => {
  await using registry = await startRegistry();
  const base = (await pushCorpus(registry, ['busybox:oci'])).get('busybox:oci')?.reference;
  await using buildkitd = await startBuildkitd();
  const dockerfile = () => `FROM ${base}\nRUN echo ${randomUUID()}\n`;
  const config = { accounts, buildkit: [buildkitd.address], ...plainRegistries(registry.host) };
  for (const open of ['', 'unix:///elsewhere.sock', buildkitd.address, '*']) {
    const env = { SLUICE_BUILDS_OPEN_BUILDERS: open };
    await using sluice = await startSluice({ config, env });
    const isOpen = open === '*' || open === buildkitd.address;
    const anonymous = await ask(sluice, dockerfile());
    assert.equal(anonymous.status, isOpen ? 200 : 401, anonymous.message);
    const warning = /builds of callers without a login are off: .*SLUICE_BUILDS_OPEN_BUILDERS/;
    if (isOpen) assert.doesNotMatch(sluice.output(), warning);
    else assert.match(sluice.output(), warning);
    if (open !== '') continue;
    const token = await newAccessToken(sluice, administrator, 'ada@example.com');
    const known = await ask(sluice, dockerfile(), token);
    assert.equal(known.status, 200, known.message);
    assert.match(await logOf(sluice, known), /The build succeeded/);
  }
});
