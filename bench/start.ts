import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePort } from '../test/world/free-port.ts';
import { serverCommand } from '../test/world/server-command.ts';
import { makeTempDir } from '../test/world/temp-dir.ts';
import type { Part } from './report.ts';
import { interleave, median, ratio } from './stats.ts';

const rounds = 9;
const pollMs = 5;

/** (e) Milliseconds from the start of the process to the first successful response of `/readyz`. */
export async function start(): Promise<Part[]> {
  const { ours, bare } = await interleave({ ours: startServer, bare: startNothing }, rounds);
  return [
    {
      letter: 'e',
      title: 'From start to ready',
      rows: [
        {
          what: 'Sluice : a Node process that does nothing and ends',
          figure: ratio(ours, bare).toFixed(1),
          aim: 'under 1 s',
          medians: `${Math.round(median(ours))} ms : ${Math.round(median(bare))} ms`,
        },
      ],
    },
  ];
}

async function startServer(): Promise<number> {
  await using data = await makeTempDir('bench');
  const port = await freePort();
  const began = performance.now();
  const [program = '', ...args] = serverCommand();
  const child = spawn(program, args, {
    cwd: new URL('..', import.meta.url),
    stdio: 'ignore',
    env: {
      PATH: process.env.PATH,
      SLUICE_DATA: data.path,
      SLUICE_LISTEN: `127.0.0.1:${port}`,
      SLUICE_BUILDKIT: 'off',
    },
  });
  const ended = once(child, 'exit');
  try {
    while (!(await isReady(port))) await sleep(pollMs);
    return performance.now() - began;
  } finally {
    child.kill('SIGTERM');
    await ended;
  }
}

async function isReady(port: number): Promise<boolean> {
  try {
    return (await fetch(`http://127.0.0.1:${port}/readyz`)).ok;
  } catch {
    return false;
  }
}

async function startNothing(): Promise<number> {
  const began = performance.now();
  await once(spawn(process.execPath, ['-e', '0'], { stdio: 'ignore' }), 'exit');
  return performance.now() - began;
}
