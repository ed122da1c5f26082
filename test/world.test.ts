/** The programs behind the integration tests: each one works, and none leaves anything behind. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { fullLines } from './corpus/cfg.ts';
import { pushCorpus } from './corpus/corpus.ts';
import { clientsOf, pull, runWithPodman } from './world/clients.ts';
import { startContainerd } from './world/containerd.ts';
import { startDocker } from './world/docker.ts';
import { eventually } from './world/eventually.ts';
import { relaySite, startNginx } from './world/nginx.ts';
import type { Result } from './world/program.ts';
import { type LoggedRequest, type Registry, startRegistry } from './world/registry.ts';
import { openRoot } from './world/root.ts';
import { outerSuites, requireApptainer, requireCommand, requireTools } from './world/tools.ts';
import { trustFiles } from './world/trust.ts';

const image = 'corpus/cfg:full';
const full = `${fullLines.join('\n')}\n`;

suite('registry', () => {
  const challenges = { none: null, basic: /^Basic /, bearer: /^Bearer / };
  for (const auth of ['none', 'basic', 'bearer'] as const) {
    test(`requires ${auth} authentication, and accepts the account's`, async () => {
      await using registry = await startRegistry({ auth });
      const response = await fetch(`${registry.url}/v2/`);
      const challenge = response.headers.get('www-authenticate');
      assert.equal(response.status, auth === 'none' ? 200 : 401);
      if (auth === 'none') assert.equal(challenge, null);
      else assert.match(challenge ?? '', challenges[auth]);
      const pushed = await pushCorpus(registry, ['cfg:full']);
      assert.equal(pushed.get('cfg:full')?.reference, `${registry.host}/${image}`);
      const isPush = ({ method, path, status }: LoggedRequest) =>
        method === 'PUT' && path === '/v2/corpus/cfg/manifests/full' && status === 201;
      await eventually('the access log knows the push', () => registry.requests.some(isPush));
    });
  }

  test('gives everybody a pull token if configured, and nobody a push token', async () => {
    await using registry = await startRegistry({ auth: 'bearer', token: { anonymousPull: true } });
    await pushCorpus(registry, ['cfg:full']);
    await using root = await openRoot('bookworm');
    assertSuccess(await pull(root, 'skopeo', `${registry.host}/${image}`));
    const { username, password } = registry;
    const wrong = { username, password: `${password}!` };
    const refused = await pull(root, 'skopeo', `${registry.host}/${image}`, { account: wrong });
    assert.notEqual(refused.code, 0);
    const requests = registry.tokenService?.requests ?? [];
    const pulls = requests.filter(({ scopes }) => !scopes.join().includes('push'));
    assert.deepEqual(
      pulls.map(({ username, status }) => [username, status]),
      [
        [undefined, 200],
        [username, 401],
      ],
    );
  });

  test('proxies the content of another registry', async () => {
    await using origin = await startRegistry();
    await pushCorpus(origin, ['cfg:full']);
    await using mirror = await startRegistry({ mirrorOf: origin.url });
    const response = await fetch(`${mirror.url}/v2/corpus/cfg/tags/list`);
    assert.deepEqual(await response.json(), { name: 'corpus/cfg', tags: ['full'] });
  });
});

suite('clients', () => {
  let plain: Registry;
  let secured: Registry;
  before(async () => {
    plain = await startRegistry();
    secured = await startRegistry({ auth: 'bearer', tls: true });
    await pushCorpus(plain, ['cfg:full']);
    await pushCorpus(secured, ['cfg:full']);
  });
  after(async () => {
    await plain?.stop();
    await secured?.stop();
  });

  // The tests of plain pulls run the programs of the suite between them.
  for (const name of outerSuites) {
    test(`of ${name} pull over HTTP, and over HTTPS with an account`, async () => {
      await using root = await openRoot(name, { files: await trustFiles(secured) });
      for (const client of clientsOf(name)) {
        assertSuccess(await pull(root, client, `${plain.host}/${image}`));
        const options = { tls: true, account: secured };
        assertSuccess(await pull(root, client, `${secured.host}/${image}`, options));
        const anonymous = await pull(root, client, `${secured.host}/${image}`, { tls: true });
        assert.notEqual(anonymous.code, 0, `${client} pulled without the account`);
      }
      assert.equal(assertSuccess(await runWithPodman(root, `${plain.host}/${image}`)), full);
      const command = ['/bin/echo', 'other'];
      const other = await runWithPodman(root, `${plain.host}/${image}`, { command });
      assert.equal(
        assertSuccess(other),
        'entry: /bin/echo other\n' + full.slice(full.indexOf('user')),
      );
    });

    test(`of ${name} refuse a certificate of an unknown authority`, async () => {
      await using root = await openRoot(name);
      for (const client of clientsOf(name)) {
        const options = { tls: true, account: secured };
        const refused = await pull(root, client, `${secured.host}/${image}`, options);
        assert.notEqual(refused.code, 0, `${client} trusts anybody`);
        assert.match(refused.stderr, /certificate signed by unknown authority/);
      }
    });

    test(`containerd of ${name} pulls both ways and runs the image`, async () => {
      const files = await trustFiles(secured);
      await using containerd = await startContainerd({ suite: name, files });
      const options = { tls: true, account: secured };
      assertSuccess(await containerd.pull(`${secured.host}/${image}`, options));
      assertSuccess(await containerd.pull(`${plain.host}/${image}`));
      assert.equal(assertSuccess(await containerd.run(`${plain.host}/${image}`)), full);
    });

    for (const store of ['overlay2', 'containerd'] as const) {
      // Docker 20.10 has only its own store.
      if (name === 'bookworm' && store === 'containerd') continue;
      test(`Docker of ${name} with ${store} pulls both ways and runs the image`, async () => {
        const files = await trustFiles(secured);
        await using docker = await startDocker({ suite: name, store, files });
        assertSuccess(await docker.login(secured.host, secured));
        assertSuccess(await docker.pull(`${secured.host}/${image}`));
        assertSuccess(await docker.docker(['logout', secured.host]));
        assertSuccess(await docker.docker(['image', 'rm', `${secured.host}/${image}`]));
        assert.notEqual((await docker.pull(`${secured.host}/${image}`)).code, 0);
        assert.equal(assertSuccess(await docker.run(`${plain.host}/${image}`)), full);
      });
    }
  }

  test('two engines run at once in one suite', async () => {
    await using first = await startDocker({ suite: 'bookworm' });
    await using second = await startDocker({ suite: 'bookworm' });
    const runs = [first, second].map(engine => engine.run(`${plain.host}/${image}`));
    for (const result of await Promise.all(runs)) assert.equal(assertSuccess(result), full);
  });

  test('nginx relays to a registry', async () => {
    await using nginx = await startNginx(() => relaySite(plain));
    await using root = await openRoot('bookworm');
    assertSuccess(await pull(root, 'skopeo', `${nginx.host}/${image}`));
  });
});

suite('nothing is left behind', () => {
  test('after stop', async () => {
    await using registry = await startRegistry();
    await using nginx = await startNginx(() => relaySite(registry));
    await using docker = await startDocker({ suite: 'bookworm' });
    await pushCorpus(registry, ['cfg:full']);
    assertSuccess(await docker.run(`${nginx.host}/${image}`));
    const directories = [registry.directory, nginx.directory, docker.root.directory];
    for (const directory of directories) assert.notDeepEqual(remains(directory), []);
    await Promise.all([docker.stop(), nginx.stop(), registry.stop()]);
    assert.deepEqual(directories.flatMap(remains), []);
  });

  test('after a kill during a run', async () => {
    const here = new URL('.', import.meta.url).href;
    const script = `
      const { startRegistry } = await import('${here}world/registry.ts');
      const { startDocker } = await import('${here}world/docker.ts');
      const { relaySite, startNginx } = await import('${here}world/nginx.ts');
      const { pushCorpus } = await import('${here}corpus/corpus.ts');
      const registry = await startRegistry({ auth: 'bearer', token: { anonymousPull: true } });
      const nginx = await startNginx(() => relaySite(registry));
      const docker = await startDocker({ suite: 'bookworm' });
      await pushCorpus(registry, ['busybox:v2s2']);
      const options = ['--detach', '--network', 'host'];
      const command = [registry.host + '/corpus/busybox:v2s2', 'sleep', '1000'];
      const { code } = await docker.docker(['run', ...options, ...command]);
      const directories = [registry.directory, nginx.directory, docker.root.directory];
      console.log(JSON.stringify({ code, directories }));`;
    const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let directories: string[] = [];
    try {
      const [line] = await once(child.stdout, 'data');
      const started = JSON.parse(String(line)) as { code: number; directories: string[] };
      assert.equal(started.code, 0);
      directories = started.directories;
      for (const directory of directories) assert.notDeepEqual(remains(directory), []);
    } finally {
      child.kill('SIGKILL');
    }
    const areGone = () => directories.flatMap(remains).length === 0;
    await eventually('nothing of them is left', areGone, 60_000);
  });
});

test('a missing tool is named together with the command that installs it', () => {
  const { SLUICE_TOOLS } = process.env;
  process.env.SLUICE_TOOLS = '/nonexistent';
  try {
    assert.throws(() => requireTools(['trixie']), /'trixie' is missing.*npm run tools/);
    assert.throws(() => requireApptainer(), /Apptainer is missing.*npm run tools/);
  } finally {
    if (SLUICE_TOOLS === undefined) delete process.env.SLUICE_TOOLS;
    else process.env.SLUICE_TOOLS = SLUICE_TOOLS;
  }
  assert.throws(() => requireCommand('no-such-command'), /'no-such-command'.*npm run tools/);
});

/** Returns the standard output. */
function assertSuccess({ code, stdout, stderr }: Result): string {
  assert.equal(code, 0, stderr);
  return stdout;
}

/** The directory, the control groups of its name, and the processes that know or mount it. */
function remains(directory: string): string[] {
  const name = basename(directory);
  const groups = readdirSync('/sys/fs/cgroup').map(entry => `/sys/fs/cgroup/${entry}/${name}`);
  const files = [directory, `/sys/fs/cgroup/${name}`, ...groups].filter(path => existsSync(path));
  const processes = readdirSync('/proc')
    .filter(entry => /^\d+$/.test(entry) && Number(entry) !== process.pid)
    .filter(entry => mentions(`/proc/${entry}`, name));
  return [...files, ...processes.map(entry => `process ${entry}`)];
}

function mentions(folder: string, name: string): boolean {
  try {
    const files = ['cmdline', 'cgroup', 'mountinfo'].map(file => `${folder}/${file}`);
    return files.some(file => readFileSync(file, 'utf8').includes(name));
  } catch {
    // The process has ended meanwhile.
    return false;
  }
}
