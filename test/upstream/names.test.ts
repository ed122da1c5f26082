import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createNames } from '../../src/upstream/transport/names.ts';

const address = (last: number) => [{ address: `192.0.2.${last}`, family: 4 }];
const silent = () => new Promise<never>(() => {});

/** Names with a clock that is set by hand, and a name server with given answers. */
function world(patienceMs = 10_000) {
  const asked: string[] = [];
  const responses = new Map<string, () => Promise<ReturnType<typeof address>>>();
  const clock = { now: 0 };
  const names = createNames({
    lookup: hostname => {
      asked.push(hostname);
      return responses.get(hostname)?.() ?? Promise.reject(new Error(`ENOTFOUND ${hostname}`));
    },
    now: () => clock.now,
    patienceMs,
  });
  return { names, asked, responses, clock };
}

test('simultaneous callers share a look-up, and so do callers shortly afterwards', async () => {
  const { names, asked, responses, clock } = world();
  responses.set('a.test', async () => address(1));
  const both = await Promise.all([names.addressesOf('a.test'), names.addressesOf('a.test')]);
  assert.deepEqual(both, [address(1), address(1)]);
  await names.addressesOf('a.test');
  assert.equal(asked.length, 1);
  clock.now = 31_000;
  responses.set('a.test', async () => address(2));
  assert.deepEqual(await names.addressesOf('a.test'), address(2));
  assert.deepEqual(await names.addressesOf('192.0.2.7'), address(7));
  assert.deepEqual(await names.addressesOf('::1'), [{ address: '::1', family: 6 }]);
  assert.equal(asked.length, 2);
});

test('silent names occupy one thread each, and never delay names that were found before', async () => {
  const { names, asked, responses, clock } = world(50);
  responses.set('known.test', async () => address(1));
  await names.addressesOf('known.test');
  const slow = Array.from({ length: 60 }, (_, at) => `n${at}.slow.test`);
  for (const name of slow) responses.set(name, silent);
  const waiting = Promise.allSettled(slow.map(name => names.addressesOf(name)));
  clock.now = 31_000;
  responses.set('known.test', async () => address(2));
  assert.deepEqual(await names.addressesOf('known.test'), address(2));
  for (const one of await waiting) {
    assert.equal(one.status === 'rejected' && one.reason.status, 504);
  }
  assert.deepEqual(asked.toSorted(), ['known.test', 'known.test', 'n0.slow.test']);
});

test('a correct address stays valid for an hour if the name server fails', async () => {
  const { names, responses, clock } = world(50);
  responses.set('a.test', async () => address(1));
  await names.addressesOf('a.test');
  clock.now = 60_000;
  responses.delete('a.test');
  assert.deepEqual(await names.addressesOf('a.test'), address(1));
  responses.set('a.test', silent);
  assert.deepEqual(await names.addressesOf('a.test'), address(1));
  clock.now = 3_700_000;
  await assert.rejects(names.addressesOf('a.test'), { status: 504 });
});
