import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { createAuthorizer } from '../../src/upstream/auth/authorizer.ts';
import type { Transport } from '../../src/upstream/transport/transport.ts';

const MiB = 1024 * 1024;

test('long tokens and challenges of a registry do not fill the memory', async () => {
  setFlagsFromString('--expose-gc');
  const collectGarbage = runInNewContext('gc') as () => void;
  let responded = 0;
  const transport = {
    async send() {
      responded += 1;
      const parts = [Buffer.from(JSON.stringify({ token: `${responded}`.padEnd(60_000, 'a') }))];
      const read = async () => {
        const bytes = parts.shift();
        return bytes ? { bytes, release() {} } : null;
      };
      return { status: 200, headers: new Map(), body: { read, destroy() {} } };
    },
  } as unknown as Transport;
  const retry = { attempts: 1, firstDelayMs: 1, longestDelayMs: 1 };
  const authorizer = createAuthorizer(transport, new Map(), 60_000, retry);
  const registry = 'registry.example.com';
  const access = (count: number) => ({
    registry,
    repository: `team/app${count}`,
    credentials: undefined,
  });
  const used = () => {
    collectGarbage();
    return process.memoryUsage().heapUsed;
  };
  const before = used();
  for (let count = 0; count < 1000; count += 1) {
    const service = `${count}`.padEnd(15_000, 's');
    const parameters = { realm: `https://${registry}/token`, service };
    const value = await authorizer.respond(
      access(count),
      [{ scheme: 'bearer', parameters }],
      undefined,
    );
    assert.ok(value);
  }
  const grown = used() - before;
  assert.ok(grown < 35 * MiB, `${grown} bytes more than before`);
  assert.ok(await authorizer.known(access(999)), 'the latest is kept');
  assert.equal(responded, 1000);
});
