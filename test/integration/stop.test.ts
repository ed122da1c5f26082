/** The end of the server: load balancers notice it first, and an interrupted installation leaves nothing behind. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { cp, mkdir, readdir, symlink } from 'node:fs/promises';
import { Agent, type IncomingMessage, request } from 'node:http';
import { createConnection } from 'node:net';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { startDaemon, waitForLine } from '../world/daemon.ts';
import { eventually } from '../world/eventually.ts';
import { serverCommand } from '../world/server-command.ts';
import { startSluice } from '../world/sluice.ts';
import { makeTempDir, type TempDir } from '../world/temp-dir.ts';
import { requireCommand, requireNode } from '../world/tools.ts';

const run = promisify(execFile);
const project = fileURLToPath(new URL('../..', import.meta.url));
// Without the folder of the project's own Node, which `node --test` runs under.
const machinePath = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

for (const signal of ['SIGTERM', 'SIGHUP'] as const) {
  test(`${signal}: for a moment the port still answers, and reports that it is not ready`, async () => {
    // Also where nohup runs the tests.
    await using sluice = await startSluice({ env: { SLUICE_STOP_DELAY: '1h', _: '' } });
    assert.equal((await sluice.fetch('/readyz')).status, 200);
    const ended = once(sluice.process, 'exit');
    sluice.process.kill(signal);
    await eventually('it is not ready', async () => (await sluice.fetch('/readyz')).status === 503);
    for (const purpose of ['pulls', 'traffic']) {
      assert.equal((await sluice.fetch(`/readyz?for=${purpose}`)).status, 503);
    }
    assert.equal((await sluice.fetch('/v2/')).status, 200, 'new requests are still answered');
    // A second signal ends the delay.
    sluice.process.kill(signal);
    assert.deepEqual(await ended, [0, null]);
    assert.match(sluice.output(), /no longer ready.*"msg":"stopped"/s);
  });
}

test('SIGHUP does not end a server that a shell has started with nohup, with a redirected standard input', async () => {
  const nohup = requireCommand('nohup');
  for (const shell of ['bash', 'zsh']) {
    const { stdout } = await run(requireCommand(shell), ['-c', `${nohup} env < /dev/null | cat`]);
    assert.match(stdout, new RegExp(`^_=${nohup}$`, 'm'));
  }
  await using sluice = await startSluice({
    command: [nohup, ...serverCommand()],
    env: { _: nohup },
  });
  sluice.process.kill('SIGHUP');
  assert.equal((await sluice.fetch('/readyz')).status, 200);
  const ended = once(sluice.process, 'exit');
  sluice.process.kill('SIGINT');
  assert.deepEqual(await ended, [0, null]);
});

test('SIGUSR1 opens no debugger, and SIGUSR2 does not end the server, nor does SIGHUP after nohup', async () => {
  // As `nohup` does in a terminal.
  const asOfNohup = [requireCommand('sh'), '-c', 'exec "$@" 0> /dev/null', 'sh'];
  await using sluice = await startSluice({ command: [...asOfNohup, ...serverCommand()] });
  for (const signal of ['SIGUSR1', 'SIGUSR2', 'SIGHUP'] as const) {
    sluice.process.kill(signal);
    assert.equal((await sluice.fetch('/readyz')).status, 200);
  }
  assert.doesNotMatch(sluice.output(), /[Dd]ebugger/);
  // The signals have arrived: one that is sent later ends the server.
  const ended = once(sluice.process, 'exit');
  sluice.process.kill('SIGINT');
  assert.deepEqual(await ended, [0, null]);
  assert.doesNotMatch(sluice.output(), /[Dd]ebugger/);
});

test('clients leave their connections before the server stops, and new ones are served until then', async () => {
  await using sluice = await startSluice({ env: { SLUICE_STOP_DELAY: '1h' } });
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const get = async (path: string): Promise<string> => {
    const [response] = (await once(request(sluice.url + path, { agent }).end(), 'response')) as [
      IncomingMessage,
    ];
    await once(response.resume(), 'end');
    return `${response.statusCode} ${response.headers.connection}`;
  };
  assert.equal(await get('/v2/'), '200 keep-alive');
  const ended = once(sluice.process, 'exit');
  sluice.process.kill('SIGTERM');
  await eventually('it is not ready', async () => (await sluice.fetch('/readyz')).status === 503);
  assert.equal(await get('/v2/'), '200 close', 'the connection of before');
  // The server stops beside a crowd that connects without end. Each of them is served or refused.
  const cut: string[] = [];
  let served = 0;
  const connect = async (): Promise<void> => {
    for (;;) {
      const socket = createConnection(sluice.port, '127.0.0.1');
      let text = '';
      let isConnected = false;
      socket.on('connect', () => {
        isConnected = true;
        socket.write('GET /v2/ HTTP/1.1\r\nHost: localhost\r\n\r\n');
      });
      socket.on('data', data => {
        text += data;
      });
      socket.on('error', () => {});
      await new Promise(resolve => socket.once('close', resolve));
      if (!isConnected) return;
      if (text.startsWith('HTTP/1.1 200 ')) served += 1;
      else cut.push(text);
    }
  };
  const crowd = Array.from({ length: 20 }, connect);
  await eventually('the crowd is served', () => served > 200);
  sluice.process.kill('SIGTERM');
  await Promise.all(crowd);
  // The system resets what arrives between the last connection that a server accepts and the end of its socket.
  assert.ok(cut.length <= 1, `${cut.length} were cut`);
  assert.equal(cut.join(''), '', 'no response is cut');
  assert.deepEqual(await ended, [0, null]);
});

test('SIGINT stops the server without a delay', async () => {
  await using sluice = await startSluice({ env: { SLUICE_STOP_DELAY: '1h' } });
  const ended = once(sluice.process, 'exit');
  sluice.process.kill('SIGINT');
  assert.deepEqual(await ended, [0, null]);
});

test('a server on an older Node ends when the process that was started is killed', async () => {
  await using directory = await makeTempDir('older-node');
  await using server = startDaemon(requireNode(20), [join(project, 'bin/sluice.js'), 'serve'], {
    env: {
      SLUICE_DATA: directory.join('data'),
      SLUICE_LISTEN: '127.0.0.1:0',
      SLUICE_BUILDKIT: 'off',
    },
  });
  const [, url = ''] = await waitForLine(server, /"url":"([^"]+)".*"msg":"ready"/);
  assert.equal((await fetch(`${url}/healthz`)).status, 200);
  server.process.kill('SIGKILL');
  await eventually('nobody listens', () =>
    fetch(`${url}/healthz`).then(
      () => false,
      () => true,
    ),
  );
});

/** Processes with the folder in their environment, which is every process of an installation. */
function processesWith(folder: string): string[] {
  return readdirSync('/proc')
    .filter(name => /^\d+$/.test(name) && Number(name) !== process.pid)
    .flatMap(id => {
      try {
        const isOne = readFileSync(`/proc/${id}/environ`, 'utf8').includes(folder);
        return isOne ? [readFileSync(`/proc/${id}/cmdline`, 'utf8').replaceAll('\0', ' ')] : [];
      } catch {
        return [];
      }
    });
}

/** A copy of the project without a builder in it. */
async function checkout(directory: TempDir): Promise<string> {
  const copy = directory.join('project');
  await mkdir(copy);
  for (const name of ['bin', 'src', 'scripts', 'proto', 'test/world', 'package.json']) {
    await cp(join(project, name), join(copy, name), { recursive: true });
  }
  await symlink(join(project, 'node_modules'), join(copy, 'node_modules'));
  return copy;
}

for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
  test(`${signal} during the installation of a builder ends the compiler and leaves nothing`, async () => {
    await using directory = await makeTempDir('installing');
    const tools = directory.join('tools');
    await mkdir(tools);
    const copy = await checkout(directory);
    await using server = startDaemon('node', ['bin/sluice.js', 'serve', '--bring-builder'], {
      cwd: copy,
      env: {
        PATH: `${dirname(requireCommand('go'))}:${dirname(process.execPath)}:${machinePath}`,
        HOME: homedir(),
        SLUICE_TOOLS: tools,
        SLUICE_BUILDKIT: '',
        SLUICE_BUILDS_UV: 'off',
        SLUICE_DATA: directory.join('data'),
        SLUICE_LISTEN: '127.0.0.1:0',
        SLUICE_STOP_DELAY: '0s',
        XDG_RUNTIME_DIR: directory.path,
      },
    });
    await waitForLine(server, /"step":"Downloading the modules of BuildKit/);
    const isInProgress = () => processesWith(tools).some(command => /\bgo\b/.test(command));
    await eventually('Go runs', isInProgress);
    server.process.kill(signal);
    await server.ended;
    // When the server is killed, the installation ends by itself.
    await eventually('nothing runs any more', () => processesWith(tools).length === 0);
    const isRemoved = async () => (await readdir(tools)).every(name => name === 'locks');
    await eventually('nothing is left', isRemoved);
    assert.ok(!(await readdir(copy)).includes('.buildkit'));
    if (signal === 'SIGTERM') {
      assert.equal(server.process.exitCode, 0, server.output());
      assert.match(server.output(), /the installation of BuildKit was stopped/);
    }
    assert.doesNotMatch(server.output(), /^\s+at |"stack"|"level":"(?:error|fatal)"/m);
  });
}
