/** Clients that send or read almost nothing are disconnected, and others are served meanwhile. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { digestOf } from '../../src/oci/digest.ts';
import { pattern } from '../faults/scripted-upstream.ts';
import { admin, administered, Repository } from '../hosted/push-client.ts';
import { eventually } from '../world/eventually.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';

const mebibyte = 1024 * 1024;
const stallMs = 4000;
// Larger than the buffers of the kernel.
const blob = pattern(64 * mebibyte, 'slow clients');
const digest = digestOf(blob);

let sluice: Sluice;
let repository: Repository;

before(async () => {
  sluice = await startSluice({
    config: {
      ...administered,
      limits: { connections: { stallTime: `${stallMs}ms` } },
    },
  });
  repository = new Repository(sluice, 'team/app');
  assert.equal((await repository.pushBlob(blob)).status, 201);
});

after(() => sluice.stop());

const headOf = (line: string, headers = '') =>
  `${line} HTTP/1.1\r\nHost: localhost\r\nAuthorization: ${admin.authorization}\r\n${headers}\r\n`;

function open(head: string): { socket: Socket; isClosed: () => boolean } {
  const socket = connect(sluice.port, '127.0.0.1');
  socket.write(head);
  let isClosed = false;
  socket.on('error', () => {});
  socket.on('close', () => {
    isClosed = true;
  });
  return { socket, isClosed: () => isClosed };
}

const getBlob = headOf(`GET /v2/team/app/blobs/${digest}`);

/** Connections that the server has open with the port of a client. */
function isOpenAtServer({ localPort = 0 }: Socket): boolean {
  const hex = (port: number) => port.toString(16).toUpperCase().padStart(4, '0');
  const line = `0100007F:${hex(sluice.port)} 0100007F:${hex(localPort)} 01 `;
  return readFileSync('/proc/net/tcp', 'latin1').includes(line);
}

test('a client that never reads its blob, and one that reads very slowly, are disconnected', async () => {
  const never = open(getBlob);
  never.socket.pause();
  const little = open(getBlob);
  little.socket.pause();
  const reading = setInterval(() => little.socket.read(1000), 200);
  const both = [never.socket, little.socket];
  try {
    await eventually('both have begun', () => both.every(isOpenAtServer));
    const whole = await repository.get(`blobs/${digest}`);
    assert.ok(whole.body.equals(blob), 'others are served');
    await eventually('both are ended', () => !both.some(isOpenAtServer));
  } finally {
    clearInterval(reading);
    for (const socket of both) socket.destroy();
  }
});

test('a client that reads a blob slowly but steadily gets all of it', async () => {
  const small = pattern(12 * mebibyte, 'slow but steady');
  assert.equal((await repository.pushBlob(small)).status, 201);
  const { socket } = open(
    headOf(`GET /v2/team/app/blobs/${digestOf(small)}`, 'Connection: close\r\n'),
  );
  let received = 0;
  const began = performance.now();
  for await (const part of socket) {
    received += (part as Buffer).length;
    await sleep(((part as Buffer).length / (2 * mebibyte)) * 1000);
  }
  assert.ok(received > small.length, `${received} bytes`);
  assert.ok(performance.now() - began > stallMs, 'it took longer than a stall may');
});

test('an upload of a byte now and then is ended; a steady upload is not', async () => {
  const location = new URL(await repository.begin(), sluice.url).pathname;
  const steady = new URL(await repository.begin(), sluice.url).pathname;
  const headers = 'Content-Length: 2000000\r\nContent-Type: application/octet-stream\r\n';
  const drop = open(headOf(`PATCH ${location}`, headers));
  const flow = open(headOf(`PATCH ${steady}`, `${headers}Connection: close\r\n`));
  const response: string[] = [];
  flow.socket.on('data', data => response.push(data.toString('latin1')));
  const sending = setInterval(() => drop.socket.write('x'), 100);
  try {
    for (let sent = 0; sent < 20; sent += 1) {
      flow.socket.write(Buffer.alloc(100_000));
      await sleep(stallMs / 10);
    }
    await eventually('the slow one is ended', drop.isClosed);
    await eventually('the steady one is answered', flow.isClosed);
    assert.match(response.join(''), /^HTTP\/1\.1 202 /);
  } finally {
    clearInterval(sending);
    drop.socket.destroy();
  }
});
