import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { createTokenRegistry } from '../../src/request/tokens/token-registry.ts';
import { openDatabase } from '../../src/storage/rows/database.ts';
import { createRequestStore } from '../../src/storage/rows/images/request-rows.ts';

test('large requests do not stay in memory after a look-up', async () => {
  setFlagsFromString('--expose-gc');
  const collectGarbage = runInNewContext('gc') as () => void;
  const database = openDatabase(':memory:');
  const registry = createTokenRegistry(createRequestStore(database), 3_600_000, {
    async admitRequest() {},
  });
  const large = `A=${'x'.repeat(960 * 1024)}`;
  collectGarbage();
  const before = process.memoryUsage().heapUsed;
  for (let count = 0; count < 80; count += 1) {
    const { token } = await registry.issue(() => ({
      ...{ caller: { address: '192.0.2.1' }, fixed: undefined, change: { env: [large] } },
      image: { registry: 'docker.io', repository: 'library/alpine', tag: 'latest' },
      ...{ targetImage: 'sluice.example.com/ct/x/library/alpine:latest', isMounted: false },
    }));
    assert.equal((await registry.get(token)).change.env?.[0]?.length, large.length);
  }
  collectGarbage();
  const grown = process.memoryUsage().heapUsed - before;
  assert.ok(grown < 40 * 1024 * 1024, `${grown} bytes more than before`);
});
