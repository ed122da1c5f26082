import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Fault } from '../../src/foundation/fault.ts';
import { createLayerFetches, type FetchLimits } from '../../src/request/layers/layer-fetches.ts';

/** Downloads that end when the test ends them, or when they are cancelled. */
function world(limits: Partial<FetchLimits> = {}) {
  const fetches = createLayerFetches<string>({ timeoutMs: 60_000, waitMs: 20, ...limits });
  const open = new Map<string, (value: string) => void>();
  const ask = (key: string, caller: { network?: string; user?: string; signal?: AbortSignal }) => {
    const asked = fetches(key, caller, signal => {
      const { promise, resolve, reject } = Promise.withResolvers<string>();
      open.set(key, resolve);
      signal.addEventListener('abort', () => {
        open.delete(key);
        reject(signal.reason);
      });
      return promise.finally(() => open.delete(key));
    });
    asked.catch(() => {});
    return asked;
  };
  return { ask, open };
}

const turn = () => new Promise(resolve => setTimeout(resolve, 5));
const tooMany = (error: unknown) => error instanceof Fault && error.status === 503;

test('a download ends when its last caller has disconnected', async () => {
  const { ask, open } = world({ lingerMs: 20 });
  const [one, other] = [new AbortController(), new AbortController()];
  const first = ask('a', { network: 'n', signal: one.signal });
  const second = ask('a', { network: 'n', signal: other.signal });
  await turn();
  one.abort();
  await assert.rejects(first);
  await new Promise(resolve => setTimeout(resolve, 60));
  assert.equal(open.size, 1, 'the other caller waits for it');
  other.abort();
  await assert.rejects(second);
  assert.equal(open.size, 1, 'a client that asks again finds it');
  while (open.size > 0) await turn();
  const again = ask('a', { network: 'n' });
  await turn();
  open.get('a')?.('done');
  assert.equal(await again, 'done');
});

test('a client that returns in time finds the download that it has left', async () => {
  const { ask, open } = world({ lingerMs: 100 });
  const left = new AbortController();
  const first = ask('a', { network: 'n', signal: left.signal });
  await turn();
  const resolve = open.get('a');
  left.abort();
  await assert.rejects(first);
  const again = ask('a', { network: 'n' });
  await new Promise(done => setTimeout(done, 150));
  resolve?.('done');
  assert.equal(await again, 'done');
});

test('a download ends at its timeout', async () => {
  const { ask, open } = world({ timeoutMs: 20 });
  await assert.rejects(ask('a', { network: 'n' }), /takes longer than/);
  assert.equal(open.size, 0);
});

test('the number of downloads is limited for each network, and for all callers without a login', async () => {
  const { ask, open } = world({ perCaller: 2, atOnce: 3 });
  for (const key of ['1', '2']) void ask(key, { network: 'one' });
  await assert.rejects(ask('3', { network: 'one' }), tooMany);
  void ask('4', { network: 'two' });
  await assert.rejects(ask('5', { network: 'three' }), tooMany);
  assert.deepEqual([...open.keys()], ['1', '2', '4']);
  void ask('6', { user: 'somebody' });
  await turn();
  assert.ok(open.has('6'), 'those with a login have their own');
  const waiting = ask('7', { network: 'one' });
  open.get('1')?.('done');
  await turn();
  open.get('7')?.('done too');
  assert.equal(await waiting, 'done too');
  // Their timeouts would keep the process for a minute.
  for (const end of open.values()) end('done');
});
