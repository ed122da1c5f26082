/** A server without free file descriptors: it continues, and recovers when there are some. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { connect, type Socket } from 'node:net';
import { test } from 'node:test';
import { digestOf } from '../../src/oci/digest.ts';
import { admin, administered, Repository } from '../hosted/push-client.ts';
import { eventually } from '../world/eventually.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';
import { requireCommand } from '../world/tools.ts';
import { pattern } from './scripted-upstream.ts';

function limitDescriptors({ process }: Sluice, count: number): void {
  execFileSync(requireCommand('prlimit'), [`--pid=${process.pid}`, `--nofile=${count}:${count}`]);
}

test('without free descriptors nothing ends, and the server recovers', async () => {
  await using sluice = await startSluice({ config: administered });
  // The check of responses loads its modules at the first response.
  assert.equal((await sluice.fetch('/healthz')).status, 200);
  const repository = new Repository(sluice, 'team/app');
  const layer = pattern(100_000, 'layer');
  await repository.pushImage('1', [layer]);
  const sockets: Socket[] = [];
  limitDescriptors(sluice, 80);
  try {
    for (let count = 0; count < 200; count += 1) {
      const socket = connect(sluice.port, '127.0.0.1').on('error', () => {});
      sockets.push(socket);
      await new Promise(resolve => socket.once('connect', resolve).once('close', resolve));
    }
    // Requests on connections that were accepted need files, which cannot be opened now.
    const responses = sockets.map(async socket => {
      if (socket.closed) return;
      const closed = new Promise<void>(resolve => socket.once('close', () => resolve()));
      socket.setTimeout(3000, () => socket.destroy());
      socket.resume();
      for (const path of ['/metrics', `/v2/team/app/blobs/${digestOf(layer)}`, '/readyz']) {
        socket.write(
          `GET ${path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: ${admin.authorization}\r\n\r\n`,
        );
      }
      await closed;
    });
    await Promise.all(responses);
  } finally {
    for (const socket of sockets) socket.destroy();
  }
  await eventually('it answers again', async () => {
    const response = await sluice.fetch('/healthz').catch(() => undefined);
    return response?.status === 200;
  });
  const kept = await repository.get(`blobs/${digestOf(layer)}`);
  assert.equal(digestOf(kept.body), digestOf(layer));
  assert.equal(sluice.process.exitCode, null, sluice.output());
  assert.doesNotMatch(sluice.output(), /uncaught error/);
});
