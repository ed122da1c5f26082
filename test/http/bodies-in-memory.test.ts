/** Request bodies that are read completely: their time limit, and their memory together. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { assertApiFault, call, type Reply } from '../faults/http-client.ts';
import { eventually } from '../world/eventually.ts';
import { type Sluice, startMeasuredSluice } from '../world/sluice.ts';
import { type Open, open } from './open-connection.ts';

const mebibyte = 1024 * 1024;

let sluice: Sluice;

before(async () => {
  sluice = await startMeasuredSluice({
    config: { limits: { bodyMemory: '8 MiB', connections: { requestTime: '3s' } } },
  });
});

after(() => sluice.stop());

/** A container request whose body has the given Content-Length. */
function begin(length: number): Open {
  return open(
    sluice,
    `POST /v1alpha2/container HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${length}\r\nConnection: close\r\n\r\n`,
  );
}

test('a body that stops arriving is answered with 408', async () => {
  const one = begin(1000);
  one.socket.write('{"containerImage":');
  await eventually('it is answered', one.isClosed);
  assert.match(
    one.text(),
    /^HTTP\/1\.1 408 .*stopped arriving: at least 64 KiB are due every 3 s/s,
  );
});

const post = (body: string | Buffer): Promise<Reply> =>
  call(`${sluice.url}/v1alpha2/container`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'content-length': body.length },
    body,
  });

test('bodies that exceed the memory for bodies wait for each other, and all are answered', async () => {
  const body = Buffer.alloc(6 * mebibyte, ' ');
  body.write('{"containerImage":""}');
  const replies = await Promise.all(Array.from({ length: 12 }, () => post(body)));
  for (const reply of replies) assertApiFault(reply, 400, /containerImage/);
});

test('half-sent bodies use no more than the memory for bodies, and further requests are refused', async () => {
  const residentBytes = () =>
    Number(
      /^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${sluice.process.pid}/status`, 'utf8'))?.[1],
    ) * 1024;
  const before = residentBytes();
  const length = 15 * mebibyte;
  const most = Buffer.alloc(length - 1, ' ');
  const crowd = Array.from({ length: 16 }, () => {
    const one = begin(length);
    one.socket.write(most);
    return one;
  });
  let peak = 0;
  await eventually('all are answered', () => {
    peak = Math.max(peak, residentBytes());
    return crowd.every(one => one.isClosed());
  });
  assert.ok(peak - before < 100 * mebibyte, `${(peak - before) / mebibyte} MiB of 240`);
  const texts = crowd.map(one => one.text());
  for (const text of texts) assert.match(text, /^HTTP\/1\.1 (?:408|503) /);
  const refused = texts.find(text => text.includes('HTTP/1.1 503')) ?? '';
  assert.match(refused, /retry-after: 5\r\n.*no memory for another request body/s);
  assertApiFault(await post('{}'), 400, /containerFile/);
});
