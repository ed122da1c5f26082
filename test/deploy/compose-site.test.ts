/**
 * The site of deploy/compose: three replicas behind nginx, with PostgreSQL, an object store and two workers, as an
 * operator starts, updates and loses parts of it. Images of Docker Hub are made from Debian's packages, under the names
 * in the files (test/world/hub-images.ts).
 */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after, before, suite, test } from 'node:test';
import { assertSuccess } from '../integration/served.ts';
import type { Daemon } from '../world/daemon.ts';
import { eventually } from '../world/eventually.ts';
import { beginPull, requestDuring } from './compose-clients.ts';
import {
  account,
  type ComposeSite,
  host,
  openComposeSite,
  replicas,
  workers,
} from './compose-world.ts';

const base = `${host}/public/busybox:1`;
// A public address, and the address at which clouds serve their secrets. Neither leaves the network of the test.
const publicAddress = '9.9.9.9';
const metadataAddress = '169.254.169.254';
const servicePort = 8000;

// Answers 200 once steps of both workers have asked for the path `/both`.
const service = `
  const askers = new Set();
  require('node:http').createServer((request, answer) => {
    if (request.url === '/both') askers.add(request.socket.remoteAddress);
    answer.statusCode = request.url !== '/both' || askers.size > 1 ? 200 : 503;
    answer.end('reached');
  }).listen(${servicePort}, '0.0.0.0')`;

/** The shell commands of a section of docs/compose.md, a text for each block. */
async function commandsOf(heading: string): Promise<string[]> {
  const page = await readFile('docs/compose.md', 'utf8');
  const [, section = ''] = page.split(`\n## ${heading}\n`);
  const [text = ''] = section.split('\n## ');
  return [...text.matchAll(/^```sh\n(.*?)^```$/gms)].map(([, commands = '']) => commands);
}

suite('deploy/compose', () => {
  let site: ComposeSite;
  let neighbour: Daemon | undefined;

  before(async () => {
    site = await openComposeSite();
    const { root } = site.docker;
    for (const address of [publicAddress, metadataAddress]) {
      assertSuccess(
        await root.execOnNetwork(['ip', 'address', 'add', `${address}/32`, 'dev', 'lo']),
      );
    }
    neighbour = root.spawnOnNetwork([process.execPath, '-e', service]);
    const { code, stderr } = await site.compose('up', '--detach', '--wait');
    if (code !== 0) assert.fail(stderr + (await site.compose('logs')).stdout);
    assertSuccess(await site.docker.login(host, account));
    assertSuccess(await site.docker.push('busybox', base));
  });

  after(async () => {
    await neighbour?.stop();
    await site?.[Symbol.asyncDispose]();
  });

  const request = async (body: object): Promise<{ targetImage: string; buildId?: string }> => {
    const { username, password } = account;
    const options = ['-u', `${username}:${password}`, '-H', 'Content-Type: application/json'];
    const response = await site.curl(
      '/v1alpha2/container',
      [...options, '--data-binary', '@-'],
      JSON.stringify(body),
    );
    return JSON.parse(assertSuccess(response));
  };

  const requestBuild = (dockerfile: string) =>
    request({ containerFile: Buffer.from(dockerfile).toString('base64') });

  /** Builds a Dockerfile and returns its log. */
  const build = async (dockerfile: string): Promise<string> => {
    const { buildId } = await requestBuild(dockerfile);
    return assertSuccess(await site.curl(`/v1alpha1/builds/${buildId}/logs?follow=true`));
  };

  const requestAndRun = async (word: string): Promise<string> => {
    const containerConfig = { cmd: ['echo', word] };
    const { targetImage } = await request({ containerImage: base, containerConfig });
    return assertSuccess(await site.docker.run(targetImage));
  };

  /** Checks that all files of the object store, in a volume or a directory, have the mark of `setup`. */
  const assertWrittenAtOnce = async (place: string): Promise<void> => {
    const command = ['--entrypoint', 'lsattr', '--volume', `${place}:/store`, 'sluice'];
    const { stdout } = await site.docker.docker(['run', '--rm', ...command, '-R', '/store']);
    const files = stdout.split('\n').filter(line => /^[-a-zA-Z]+ \//.test(line));
    assert.ok(files.length > 5, stdout);
    for (const file of files) assert.match(file, /^[^ ]*S/);
  };

  const leader = async (): Promise<string> => {
    for (const replica of replicas) if (await site.leads(replica)) return replica;
    throw new Error('no replica leads');
  };

  /** The replicas that nginx has a connection to. */
  const connected = async (): Promise<string[]> => {
    const balancer = await site.address('nginx', 'site');
    // As Linux writes addresses on machines of this kind, with the port 9090 at the side of the replica.
    const bytes = balancer.split('.').map(part => Number(part).toString(16).padStart(2, '0'));
    const peer = bytes.reverse().join('').toUpperCase();
    const pattern = new RegExp(`:2382 ${peer}:[0-9A-F]{4} 01 `);
    const tables = await Promise.all(
      replicas.map(replica => site.inside(replica, 'cat', '/proc/net/tcp')),
    );
    return replicas.filter((_, index) => pattern.test(tables[index]?.stdout ?? ''));
  };

  test('an image is pushed, and pulled with another environment', async () => {
    const { targetImage } = await request({
      containerImage: base,
      containerConfig: { env: ['GREETING=hello'], cmd: ['sh', '-c', 'echo $GREETING'] },
    });
    assert.equal(assertSuccess(await site.docker.run(targetImage)), 'hello\n');
  });

  test('the files of the object store are written to the disk at once', async () => {
    await assertWrittenAtOnce('sluice-site_store');
  });

  test('both workers build, and what they build is pulled', async () => {
    const wait = `until wget -q -O /dev/null http://${publicAddress}:${servicePort}/both; do sleep 0.1; done`;
    const logs = await Promise.all(
      workers.map(worker => build(`FROM ${base}\nRUN ${wait}\nRUN echo ${worker} > /built\n`)),
    );
    for (const log of logs) assert.match(log, /The build succeeded/);
  });

  test('steps of builds reach public addresses, and nothing of the site', async () => {
    const closed = [
      `${metadataAddress}:${servicePort}`,
      host,
      `${await site.address('nginx', 'builds')}:8080`,
      `${await site.address('nginx', 'site')}:8080`,
      `${await site.address('replica-1', 'site')}:9090`,
      `${await site.address('replica-1', 'data')}:9090`,
      `${await site.address('store', 'data')}:7070`,
      `${await site.address('postgres', 'data')}:5432`,
      `${await site.address('worker-1', 'builds')}:${servicePort}`,
      `${await site.address('worker-2', 'builds')}:${servicePort}`,
    ];
    const open = `${publicAddress}:${servicePort}`;
    const get = (at: string) => `$(wget -q -T 3 -O - http://${at}/ 2>&1 | head -c 60)`;
    const script = [open, ...closed].map(at => `echo "${at} ${get(at)}"`).join('; ');
    const log = await build(`FROM ${base}\nRUN ${script}\n`);
    assert.match(log, new RegExp(`${open} reached`), log);
    for (const at of closed) assert.match(log, new RegExp(`${at} wget: `), log);
  });

  test('only the replicas reach the database and the store', async () => {
    const format = '{{range .Containers}}{{.Name}} {{end}}';
    const members = assertSuccess(
      await site.docker.docker(['network', 'inspect', '--format', format, 'sluice-site_data']),
    );
    const expected = [...replicas, 'postgres', 'store'].map(name => `sluice-site-${name}-1`);
    assert.deepEqual(members.trim().split(' ').sort(), expected.sort());
    const isInternal = ['network', 'inspect', '--format', '{{.Internal}}', 'sluice-site_data'];
    assert.equal(assertSuccess(await site.docker.docker(isInternal)), 'true\n');
  });

  test('the leader is killed while another replica sends a blob', async () => {
    const { targetImage, buildId } = await requestBuild(
      `FROM ${base}\nRUN head -c 67108864 /dev/urandom > /large\n`,
    );
    await site.curl(`/v1alpha1/builds/${buildId}/logs?follow=true`);
    const path = targetImage.slice(host.length).replace(/:[^:/]+$/, '');
    const tag = targetImage.slice(targetImage.lastIndexOf(':') + 1);
    const manifest = JSON.parse(assertSuccess(await site.curl(`/v2${path}/manifests/${tag}`)));
    const { digest } = manifest.layers.at(-1);
    const first = await leader();
    for (let attempt = 1; ; attempt++) {
      await using pull = await beginPull(site, `/v2${path}/blobs/${digest}`);
      let carriers: readonly string[] = [];
      await eventually('one replica sends the blob', async () => {
        carriers = await connected();
        return carriers.length === 1;
      });
      // nginx chooses at random.
      if (carriers[0] === first && attempt < 30) continue;
      assert.notEqual(carriers[0], first);
      assertSuccess(await site.docker.docker(['kill', `sluice-site-${first}-1`]));
      assert.equal(await requestAndRun('two'), 'two\n');
      assert.equal(await pull.finish(), digest);
      break;
    }
    assert.match(await build(`FROM ${base}\nRUN echo two > /built\n`), /The build succeeded/);
    assertSuccess(await site.docker.push('busybox', `${host}/public/pushed:1`));
    assertSuccess(await site.compose('up', '--detach', '--wait'));
  });

  test('clients notice nothing of the update that docs/compose.md describes', async t => {
    const [, update = ''] = await commandsOf('Update');
    assert.match(update, /--force-recreate/);
    const { targetImage } = await request({ containerImage: base });
    const path = `/v2${targetImage.slice(host.length).replace(/:1$/, '/manifests/1')}`;
    const {
      answers: responses,
      longestMs,
      failures,
    } = await requestDuring(site.docker.root, `http://${host}${path}`, async () => {
      assertSuccess(await site.shell(update));
    });
    t.diagnostic(`${responses} answers, the longest after ${Math.round(longestMs)} ms`);
    assert.deepEqual(failures, []);
    assert.ok(responses > 10, String(responses));
  });

  test('a leader that hangs is started again', async () => {
    const hung = await leader();
    const stop = 'kill -STOP $(cat /proc/1/task/1/children)';
    assertSuccess(await site.inside(hung, 'sh', '-c', stop));
    const format = '{{.RestartCount}} {{.State.Health.Status}}';
    await eventually('it runs again', async () => {
      const inspected = await site.docker.docker([
        ...['inspect', '--format', format, `sluice-site-${hung}-1`],
      ]);
      return /^[1-9]\d* healthy$/m.test(assertSuccess(inspected));
    });
    assert.equal(await requestAndRun('again'), 'again\n');
  });

  test('a new site has everything of the backup, as docs/compose.md describes', async () => {
    assertSuccess(
      await site.inside('replica-1', 'node', 'bin/sluice.js', 'user', 'add', 'ada@example.org'),
    );
    const credentials = ['credentials', 'add', 'registry.example.org', '--user', 'ada@example.org'];
    assertSuccess(
      await site.shell(
        `echo sesame | docker compose exec -T replica-1 sluice ${credentials.join(' ')} --username ada --password-stdin`,
      ),
    );
    const [backUp = '', restore = ''] = await commandsOf('Back up');
    assertSuccess(await site.shell(backUp));
    assertSuccess(await site.compose('down', '--volumes'));
    const files = '/tmp/sluice-store/files';
    assertSuccess(
      await site.shell(`mkdir -p ${files}; echo SLUICE_STORE_DIRECTORY=${files} >> .env`),
    );
    assertSuccess(await site.shell(restore));
    await assertWrittenAtOnce(files);
    const verified = await site.inside('replica-1', 'node', 'bin/sluice.js', 'verify');
    assert.match(assertSuccess(verified), / 0 damaged, 0 missing/);
    const listed = await site.inside(
      'replica-2',
      'node',
      'bin/sluice.js',
      ...['credentials', 'list'],
    );
    assert.match(assertSuccess(listed), /registry\.example\.org/);
    assertSuccess(await site.docker.pull(`${host}/public/pushed:1`));
    assert.equal(await requestAndRun('restored'), 'restored\n');
    const twice = await site.shell('docker compose run --rm backup restore');
    assert.match(twice.stderr, /Restore into a new site/);
  });
});
