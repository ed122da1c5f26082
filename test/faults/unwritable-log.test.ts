/** A log that cannot be written: the server continues, reports the loss, and stops on request. */
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import { readFile, rm, writeFile } from 'node:fs/promises';
import { test } from 'node:test';
import { eventually } from '../world/eventually.ts';
import { freePort } from '../world/free-port.ts';
import { serverCommand } from '../world/server-command.ts';
import { makeTempDir } from '../world/temp-dir.ts';
import { requireCommand } from '../world/tools.ts';

interface Started extends AsyncDisposable {
  readonly url: string;
  readonly child: ReturnType<typeof spawn>;
}

/** A server whose standard output is what the caller gives it. */
async function start(data: string, stdout: number | 'pipe'): Promise<Started> {
  const port = await freePort();
  const child = spawn(requireCommand('setpriv'), ['--pdeathsig', 'KILL', ...serverCommand()], {
    cwd: new URL('../..', import.meta.url),
    stdio: ['ignore', stdout, 'inherit'],
    env: {
      PATH: process.env.PATH,
      SLUICE_DATA: data,
      SLUICE_LISTEN: `127.0.0.1:${port}`,
      SLUICE_BUILDKIT: 'off',
      SLUICE_DRAIN_TIME: '2s',
    },
  });
  const url = `http://127.0.0.1:${port}`;
  await eventually('the server is ready', async () => {
    assert.equal(child.exitCode, null, 'it has ended');
    return (await fetch(`${url}/readyz`).catch(() => undefined))?.status === 200;
  });
  return {
    url,
    child,
    async [Symbol.asyncDispose]() {
      if (child.exitCode !== null || child.signalCode !== null) return;
      child.kill('SIGKILL');
      await once(child, 'exit');
    },
  };
}

async function request(url: string, count: number): Promise<void> {
  const path = `/${'X'.repeat(4000)}`;
  for (let at = 0; at < count; at += 1) await (await fetch(url + path)).arrayBuffer();
}

/** Stops the server. Returns the time that it took, in ms. */
async function end({ child }: Started): Promise<number> {
  const began = performance.now();
  const ended = once(child, 'exit');
  child.kill('SIGTERM');
  const [code, signal] = await ended;
  assert.deepEqual([code, signal], [0, null]);
  return performance.now() - began;
}

// Far above what ending takes on a busy machine, far below for ever.
const patienceMs = 20_000;

test('a log on a full disk loses lines only, and continues when there is space', async () => {
  await using directory = await makeTempDir('full-log');
  const disk = directory.join('disk');
  execFileSync('mkdir', [disk]);
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=2m', 'tmpfs', disk]);
  try {
    const file = openSync(`${disk}/log`, 'a');
    await writeFile(`${disk}/ballast`, Buffer.alloc(1984 * 1024));
    await using server = await start(directory.join('data'), file);
    closeSync(file);
    await request(server.url, 100);
    assert.equal((await fetch(`${server.url}/healthz`)).status, 200);
    await rm(`${disk}/ballast`);
    const log = () => readFile(`${disk}/log`, 'utf8');
    await eventually('the log reports the loss', async () =>
      (await log()).includes('log lines were lost'),
    );
    await request(server.url, 3);
    assert.ok((await end(server)) < patienceMs);
    const lines = (await log()).trimEnd().split('\n');
    const whole = lines.flatMap(line => {
      try {
        return [JSON.parse(line)];
      } catch {
        return [];
      }
    });
    assert.ok(
      lines.length - whole.length <= 1,
      'at most the line is cut at which the disk was full',
    );
    const lost = whole.filter(({ msg }) => /lines were lost/.test(msg)).map(({ lines }) => lines);
    assert.ok(lost.length >= 1 && lost.every(count => count > 0));
    const last = whole.findIndex(({ msg }) => /lines were lost/.test(msg));
    assert.ok(
      whole.slice(last).some(({ msg }) => msg === 'request'),
      'lines come again',
    );
    assert.equal(whole.at(-1).msg, 'stopped');
  } finally {
    execFileSync('umount', ['--lazy', disk]);
  }
});

for (const kind of ['socket', 'pipe'] as const) {
  test(`a ${kind} without a reader delays neither requests nor the stop`, async () => {
    await using directory = await makeTempDir('unread-log');
    const fifo = directory.join('fifo');
    execFileSync('mkfifo', [fifo]);
    // Opened for both, so that opening waits for nobody; this end is never read.
    const own = kind === 'pipe' ? openSync(fifo, 'r+') : undefined;
    await using server = await start(directory.join('data'), own ?? 'pipe');
    try {
      await request(server.url, 400);
      assert.equal((await fetch(`${server.url}/readyz`)).status, 200);
      assert.ok((await end(server)) < patienceMs);
    } finally {
      if (own !== undefined) closeSync(own);
    }
  });
}

test('a log reader that has disconnected ends nothing', async () => {
  await using directory = await makeTempDir('gone-log');
  await using server = await start(directory.join('data'), 'pipe');
  server.child.stdout?.destroy();
  await request(server.url, 20);
  assert.equal((await fetch(`${server.url}/readyz`)).status, 200);
  assert.ok((await end(server)) < patienceMs);
});
