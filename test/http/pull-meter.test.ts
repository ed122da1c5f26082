import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Fault } from '../../src/foundation/fault.ts';
import { createLimiter } from '../../src/http/limits/limiter.ts';
import { createPullMeter } from '../../src/http/registry/pull-meter.ts';
import { createPullCounter } from '../../src/pull/pull-counter.ts';
import type { ContainerRequest } from '../../src/request/container-request.ts';
import { openDatabase } from '../../src/storage/rows/database.ts';
import { createUsageStore } from '../../src/storage/rows/figures/usage-rows.ts';

const request = (token: string, isMounted = false) =>
  ({
    token,
    isMounted,
    caller: { address: '' },
  }) as unknown as ContainerRequest;

function makeMeter(count: number) {
  const clock = { now: 1 };
  const recorded: string[] = [];
  const usage = createUsageStore(openDatabase(':memory:'));
  const rate = { count, seconds: 3600 };
  const meter = createPullMeter({
    counter: createPullCounter(() => clock.now),
    limiter: createLimiter('pulls', () => clock.now),
    rates: { anonymous: rate, authenticated: rate },
    usage,
    record: ({ token }) => recorded.push(token),
  });
  return { meter, usage, clock, recorded };
}

test('a pull that was admitted but came too late does not pass the next time either', async () => {
  const { meter, usage } = makeMeter(1);
  const [one, two] = [request('one'), request('two')];
  meter.admit('client', one);
  meter.admit('client', two);
  meter.count('client', one);
  for (let again = 0; again < 2; again += 1) {
    assert.throws(() => meter.count('client', two), Fault);
    assert.throws(() => meter.admit('client', two), Fault);
  }
  meter.admit('client', one);
  assert.equal(await usage.count('pulls', {}), 1);
});

test('one client and one token have one pull per half minute', async () => {
  const { meter, usage, clock, recorded } = makeMeter(10);
  for (const at of [1, 10_000, 29_000]) {
    clock.now = at;
    meter.count('client', request('one', true));
  }
  assert.equal(await usage.count('pulls', {}), 1);
  meter.count('other client', request('one'));
  meter.count('client', request('two'));
  assert.equal(await usage.count('pulls', {}), 3);
  clock.now = 31_000;
  meter.count('client', request('one', true));
  assert.equal(await usage.count('pulls', {}), 4);
  assert.equal(await usage.count('mounted', {}), 2);
  assert.deepEqual(recorded, ['one', 'one', 'two', 'one']);
});

test('pulls that have happened are counted at the limit, and each once', async () => {
  const { meter, usage } = makeMeter(1);
  for (const token of ['one', 'one', 'two', 'three']) meter.note('client', request(token));
  assert.equal(await usage.count('pulls', {}), 3);
  assert.throws(() => meter.admit('client', request('four')), Fault);
  assert.equal(meter.admit('client', request('three')), true);
  meter.count('client', request('three'));
  assert.equal(await usage.count('pulls', {}), 3);
});

test('only an image that was made for no platform is one of amd64', async () => {
  const { meter, usage } = makeMeter(10);
  const ask = (token: string, more: object) =>
    meter.count('client', { ...request(token), ...more } as ContainerRequest);
  ask('recipe', { isBuilt: true, asked: {} });
  ask('another recipe', { isBuilt: true, asked: {} });
  ask('frozen', { isBuilt: true, asked: { containerImage: 'alpine' } });
  ask('served', { asked: {} });
  ask('arm', { isBuilt: true, asked: {}, platform: 'linux/arm64' });
  assert.equal(await usage.count('pulls', { arch: 'amd64' }), 2);
  assert.equal(await usage.count('pulls', { arch: 'arm64' }), 1);
});
