/**
 * `docker compose up` with the project's files, in a Docker engine with its own network.
 * Images of Docker Hub are made from Debian's packages, under the names in the files.
 */
import assert from 'node:assert/strict';
import { appendFile, cp, mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { composeImages } from '../world/compose-images.ts';
import type { Daemon } from '../world/daemon.ts';
import { type Docker, startDocker } from '../world/docker.ts';
import type { Result } from '../world/program.ts';
import { makeTempDir, type TempDir } from '../world/temp-dir.ts';
import { assertSuccess } from './served.ts';

const project = fileURLToPath(new URL('../..', import.meta.url));
const patienceMs = 120_000;
// The address in the files; the engine has its own network, so nobody else uses it.
const host = '127.0.0.1:9090';
const base = `${host}/public/busybox:1`;
// A public address, and the address at which clouds serve their secrets. Neither leaves the network of the test.
const publicAddress = '9.9.9.9';
const metadataAddress = '169.254.169.254';
const servicePort = 8000;

suite('docker compose up', () => {
  let files: TempDir;
  let docker: Docker;
  let neighbour: Daemon | undefined;

  before(async () => {
    files = await makeTempDir('compose');
    const images = await composeImages();
    docker = await startDocker({ suite: 'forky', ownNetwork: true });
    const { root } = docker;
    for (const address of [publicAddress, metadataAddress]) {
      assertSuccess(
        await root.execOnNetwork(['ip', 'address', 'add', `${address}/32`, 'dev', 'lo']),
      );
    }
    neighbour = root.spawnOnNetwork([process.execPath, '-e', service]);
    await docker.load(images);
    const folder = join(root.directory, 'tmp/project/sluice');
    await mkdir(folder, { recursive: true });
    for (const name of ['compose.yaml', 'sluice.yaml', 'builder', 'Dockerfile']) {
      await cp(join(project, name), join(folder, name), { recursive: true });
    }
    await appendFile(join(folder, 'sluice.yaml'), 'logLevel: debug\n');
    const settings = {
      SLUICE_ACCOUNTS: 'admin:sesame',
      SLUICE_BUILDER_MEMORY: '512m',
      SLUICE_BUILDER_PROCESSORS: '1.5',
      SLUICE_ACCESS_BUILDS: 'open',
    };
    assertSuccess(await compose(['up', '--detach'], settings));
    await untilReady();
    assertSuccess(await docker.login(host, { username: 'admin', password: 'sesame' }));
    assertSuccess(await docker.push('busybox', base));
  });

  after(async () => {
    await neighbour?.stop();
    await docker?.stop();
    await files?.remove();
  });

  const compose = (args: readonly string[], env: Readonly<Record<string, string>> = {}) =>
    docker.root.exec(['docker', 'compose', '--project-directory', '/tmp/project/sluice', ...args], {
      env,
      timeoutMs: patienceMs,
    });

  /** Runs the command line as a user of such a server would. Returns the printed name. */
  const build = async (dockerfile: string): Promise<Result> => {
    const file = files.join('Dockerfile');
    await writeFile(file, dockerfile);
    const command = [
      process.execPath,
      join(project, 'bin/sluice.js'),
      'build',
      '-f',
      file,
      '--await',
    ];
    return docker.root.execOnNetwork(command, { timeoutMs: patienceMs });
  };

  const untilReady = async (log = async () => JSON.stringify(await compose(['logs']))) => {
    const url = `http://${host}/readyz`;
    const check = `fetch('${url}').then(r => process.exit(r.ok ? 0 : 1), () => process.exit(1))`;
    for (const end = Date.now() + patienceMs; ; await sleep(200)) {
      const { code } = await docker.root.execOnNetwork([process.execPath, '-e', check]);
      if (code === 0) return;
      if (Date.now() > end) assert.fail(await log());
    }
  };

  /** Returns the output of a step of an anonymous build. */
  const stepSays = async (script: string): Promise<string> => {
    const { stdout, stderr } = await build(`FROM ${base}\nRUN ${script}\n`);
    return stdout + stderr;
  };

  /** Returns what a step receives from each address, or the error of wget. */
  const fetched = (addresses: readonly string[]) => {
    const get = (at: string) => `$(wget -q -T 3 -O - http://${at}/ 2>&1 | head -c 60)`;
    return stepSays(addresses.map(at => `echo "${at} ${get(at)}"`).join('; '));
  };

  test('the server has few rights and limits, and the settings of the file', async () => {
    const inspected = await docker.docker(['inspect', 'sluice-sluice-1']);
    const [{ HostConfig: found }] = JSON.parse(assertSuccess(inspected));
    assert.deepEqual(
      [found.ReadonlyRootfs, found.CapDrop, found.SecurityOpt, found.Memory, found.PidsLimit],
      [true, ['ALL'], ['no-new-privileges:true'], 2 * 1024 ** 3, 512],
    );
    const inside = ['exec', '--no-TTY', 'sluice', 'node', 'bin/sluice.js', 'config'];
    assert.match(
      assertSuccess(await compose(inside)),
      /^logLevel +debug +\/etc\/sluice\/sluice\.yaml/m,
    );
    const script = 'require("node:fs").writeFileSync("/sluice/x", "")';
    const writing = await compose(['exec', '--no-TTY', 'sluice', 'node', '-e', script]);
    assert.match(writing.stderr, /EROFS/);
  });

  test('the builder has limits for all builds together', async () => {
    const inspected = await docker.docker(['inspect', 'sluice-buildkitd-1']);
    const [{ HostConfig: found }] = JSON.parse(assertSuccess(inspected));
    assert.deepEqual(
      [found.Memory, found.PidsLimit, found.NanoCpus, found.CpuShares],
      [512 * 1024 ** 2, 4096, 1.5e9, 256],
    );
  });

  test('an image is built on a hosted one, pushed and run', async () => {
    const image = assertSuccess(
      await build(`FROM ${base}\nRUN echo built > /built\nCMD cat /built\n`),
    );
    assert.ok(image.startsWith(`${host}/`), image);
    assert.equal(assertSuccess(await docker.run(image.trim())), 'built\n');
  });

  test('a step can reach neither the socket of the builder nor its processes, and has no raw sockets', async () => {
    const log = await stepSays(
      'ls -d /run/buildkit /builder /dev/otel*; ps | grep -c buildki[t]d; grep CapBnd /proc/self/status; echo looked',
    );
    assert.match(log, /looked/);
    assert.match(log, /\/run\/buildkit: No such file/);
    assert.match(log, /\/builder: No such file/);
    assert.match(log, /\/dev\/otel\*: No such file/);
    assert.match(log, /^#\d+ [\d.]+ 0$/m, 'no process of the builder is seen');
    const [, bounds = ''] = /CapBnd:\s*([0-9a-f]+)/.exec(log) ?? [];
    const rawSockets = 1n << 13n;
    assert.notEqual(bounds, '', log);
    assert.equal(BigInt(`0x${bounds}`) & rawSockets, 0n, log);
  });

  test('a step reaches public addresses, and no closed ones', async () => {
    const gateway = assertSuccess(
      await docker.docker([
        ...[
          'network',
          'inspect',
          '--format',
          '{{(index .IPAM.Config 0).Gateway}}',
          'sluice_default',
        ],
      ]),
    ).trim();
    const format = '{{.NetworkSettings.Networks.sluice_default.IPAddress}}';
    const address = async (name: string) =>
      assertSuccess(await docker.docker(['inspect', '--format', format, name])).trim();
    const closed = [
      `${gateway}:${servicePort}`,
      `${metadataAddress}:${servicePort}`,
      `${await address('sluice-sluice-1')}:9090`,
      `${await address('sluice-buildkitd-1')}:${servicePort}`,
      `10.194.0.1:${servicePort}`,
      host,
    ];
    const log = await fetched([`${publicAddress}:${servicePort}`, ...closed]);
    assert.match(log, new RegExp(`${publicAddress}:${servicePort} reached`), log);
    for (const at of closed) assert.match(log, new RegExp(`${at} wget: `), log);
  });

  test('simultaneous steps cannot reach each other', async () => {
    const ports = 'cat /sys/class/net/sluice0/brif/*/isolated';
    const flags = assertSuccess(
      await docker.docker(['exec', 'sluice-buildkitd-1', 'sh', '-c', ports]),
    );
    assert.match(flags, /^(?:1\n)+$/);
  });

  test('builds get no more memory than their limit, and the builder survives them', async () => {
    const { code, stdout, stderr } = await build(`FROM ${base}\nRUN tail /dev/zero\n`);
    assert.notEqual(code, 0);
    assert.match(stdout + stderr, /memory/);
    assertSuccess(await build(`FROM ${base}\nRUN echo alive > /alive\n`));
    const starts = ['inspect', '--format', '{{.RestartCount}}', 'sluice-buildkitd-1'];
    assert.equal(assertSuccess(await docker.docker(starts)), '0\n');
  });

  test('a step resolves names', async () => {
    assert.match(await stepSays('nslookup sluice'), /Name:\s+sluice/);
  });

  test('the builder itself downloads from public addresses only', async () => {
    const fetchIt = (address: string) =>
      docker.docker([
        ...['exec', 'sluice-buildkitd-1', 'wget', '-q', '-T', '3', '-O', '-'],
        `http://${address}:${servicePort}/`,
      ]);
    assert.equal(assertSuccess(await fetchIt(publicAddress)), 'reached');
    const refused = await fetchIt(metadataAddress);
    assert.notEqual(refused.code, 0);
    assert.doesNotMatch(refused.stdout, /reached/);
    const { stderr, code } = await build(
      `FROM ${base}\nADD http://${metadataAddress}:${servicePort}/ /secret\n`,
    );
    assert.notEqual(code, 0, stderr);
  });

  test('the builder continues when the container of Sluice is replaced', async () => {
    const other = ['up', '--detach', '--force-recreate', '--no-deps', 'sluice'];
    // Its address is taken meanwhile.
    assertSuccess(await compose(['stop', 'sluice']));
    assertSuccess(
      await docker.docker([
        ...['run', '--detach', '--network', 'sluice_default', 'busybox', 'sleep', '600'],
      ]),
    );
    const settings = { SLUICE_ACCOUNTS: 'admin:sesame', SLUICE_ACCESS_BUILDS: 'open' };
    assertSuccess(await compose(other, settings));
    await untilReady();
    assertSuccess(await build(`FROM ${base}\nRUN echo again > /built\n`));
  });

  test('the command in the documentation starts a builder for a server on the machine', async () => {
    const page = await readFile(join(project, 'docs/builds.md'), 'utf8');
    const line = /^docker compose -f builder\/compose\.yaml .*$/m.exec(page)?.[0] ?? '';
    assert.notEqual(line, '', 'the page has the line');
    assertSuccess(await compose(['down', '--volumes']));
    const script = `cd /tmp/project/sluice && ${line}`;
    assertSuccess(await docker.root.exec(['sh', '-c', script], { timeoutMs: patienceMs }));
    const env = {
      SLUICE_DATA: files.join('data'),
      SLUICE_ACCOUNTS: 'admin:sesame',
      // That of the line, as seen from outside of the engine's private root.
      SLUICE_BUILDKIT: `unix://${docker.root.directory}/run/buildkit/buildkitd.sock`,
      SLUICE_BUILDS_OPEN_BUILDERS: '*',
    };
    const command = [process.execPath, join(project, 'bin/sluice.js'), 'serve'];
    await using server = docker.root.spawnOnNetwork(command, { env });
    await untilReady(async () => server.output());
    assertSuccess(await docker.push('busybox', base));
    const image = assertSuccess(
      await build(`FROM ${base}\nRUN echo line > /built\nCMD cat /built\n`),
    );
    assert.equal(assertSuccess(await docker.run(image.trim())), 'line\n');
    const closed = [host, `10.194.0.1:9090`, `10.194.0.1:${servicePort}`].concat(
      [metadataAddress, publicAddress, '172.17.0.1'].map(address => `${address}:${servicePort}`),
    );
    const log = await fetched(closed);
    for (const at of closed) assert.match(log, new RegExp(`${at} wget: `), log);
  });
});

const service = `require('node:http').createServer((_, answer) => answer.end('reached')).listen(${servicePort}, '0.0.0.0')`;
