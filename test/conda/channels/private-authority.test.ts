import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { readAll } from '../../../src/upstream/transport/upstream-response.ts';
import { makeCertificates } from '../../world/certificates.ts';
import { makeTempDir } from '../../world/temp-dir.ts';
import { accessTo, listed } from '../solving/solver-world.ts';

test('a channel with a private authority is trusted when the authority is listed', async t => {
  await using directory = await makeTempDir('authority');
  const { authority, certificate, key } = await makeCertificates(directory.path);
  const server = createServer(
    { cert: await readFile(certificate), key: await readFile(key) },
    (_, response) => void response.end('welcome'),
  );
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const url = `https://127.0.0.1:${(server.address() as AddressInfo).port}/c`;
  const signal = AbortSignal.timeout(300_000);
  const trusting = accessTo(t, [listed(url, { ca: await readFile(authority, 'utf8') })]);
  const { body } = await trusting.open(`${url}/noarch/x`, { signal });
  assert.equal((await readAll(body, 100, 'x')).toString(), 'welcome');
  await assert.rejects(
    accessTo(t, [listed(url)]).open(`${url}/noarch/x`, { signal }),
    /certificate that is not trusted .* with channels\.\S+ca/,
  );
});
