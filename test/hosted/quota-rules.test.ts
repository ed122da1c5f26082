/** How much a hosted repository, the contexts of callers, and the registry may grow. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { contextRepository } from '../../src/hosted/uploads/context-repository.ts';
import { type ContextLimits, createQuota } from '../../src/hosted/uploads/quota.ts';
import { createReservations } from '../../src/hosted/uploads/reservations.ts';
import type { HostedLimits } from '../../src/storage/rows/hosted/hosted-store.ts';

const own = contextRepository({ user: 'ada' });
const network = contextRepository({ network: '192.0.2.1' });
const unlimited = {
  maxBlobBytes: undefined,
  maxRepositoryBytes: undefined,
  maxTotalBytes: undefined,
};
const openContexts = {
  maxContextBytes: undefined,
  maxNetworkBytes: undefined,
  maxBytes: undefined,
};

/** 100 bytes in each repository, 300 below those of networks, 500 in all. */
function quotaOf(limits: Partial<HostedLimits>, contexts: Partial<ContextLimits> = {}) {
  const asked: string[] = [];
  const store = {
    async repositoryBytes(repository: string) {
      asked.push(repository);
      return 100;
    },
    async bytesBelow(path: string) {
      asked.push(path);
      return 300;
    },
    async totalBytes() {
      asked.push('all');
      return 500;
    },
  };
  const quota = createQuota(store, { ...unlimited, ...limits }, { ...openContexts, ...contexts });
  return { quota, asked };
}

const others = { inRepository: 10, inAnonymous: 20, inAll: 30 };
const denied = (message: RegExp) => ({ kind: 'denied', message });

test('what reaches a limit exactly is admitted, one byte more is not', async () => {
  for (const [limits, contexts, repository, most, kind, message] of [
    [{ maxBlobBytes: 50 }, {}, 'team/app', 50, 'too-large', /^A blob can have at most 50 bytes/],
    [
      ...[{ maxRepositoryBytes: 160 }, {}, 'team/app', 50, 'denied'],
      /^The repository team\/app can hold at most 160 bytes.*hosted\.maxRepositoryBytes$/,
    ],
    [
      ...[{ maxTotalBytes: 580 }, {}, 'team/app', 50, 'denied'],
      /^The registry can hold at most 580 bytes.*hosted\.maxTotalBytes$/,
    ],
    [{}, { maxContextBytes: 160 }, own, 50, 'denied', /^You can.* 160 .*hosted\.maxContextBytes$/],
    [
      ...[{}, { maxNetworkBytes: 160 }, network, 50, 'denied'],
      /^Your network can.* 160 .*anonymous\.maxNetworkBytes$/,
    ],
    [
      ...[{}, { maxBytes: 370 }, network, 50, 'denied'],
      /^Callers without a login can.* 370 .*anonymous\.maxBytes$/,
    ],
    [{ maxBlobBytes: 50 }, {}, own, 50, 'too-large', /^A blob can have at most 50 bytes/],
    [{ maxTotalBytes: 580 }, {}, network, 50, 'denied', /^The registry can hold/],
  ] as [HostedLimits, ContextLimits, string, number, string, RegExp][]) {
    const { quota } = quotaOf(limits, contexts);
    await quota.admit(repository, most, others);
    await assert.rejects(quota.admit(repository, most + 1, others), { kind, message });
  }
});

test('without other uploads, only what is stored counts', async () => {
  const { quota } = quotaOf({ maxRepositoryBytes: 160, maxTotalBytes: 560 }, { maxBytes: 360 });
  await quota.admit('team/app', 60);
  await assert.rejects(quota.admit('team/app', 61), denied(/^The repository/));
  await quota.admit(network, 60);
  await assert.rejects(quota.admit(network, 61), denied(/^Callers/));
});

test('a repository has its own limit, and contexts those of their owner', () => {
  const limits = { maxBlobBytes: 1, maxRepositoryBytes: 2, maxTotalBytes: 3 };
  const contexts = { maxContextBytes: 4, maxNetworkBytes: 5, maxBytes: 6 };
  const { quota } = quotaOf(limits, contexts);
  assert.deepEqual(quota.limitsOf('team/app'), limits);
  assert.deepEqual(quota.limitsOf('context/app'), limits);
  assert.deepEqual(quota.limitsOf(own), { ...limits, maxRepositoryBytes: 4 });
  assert.deepEqual(quota.limitsOf(network), { ...limits, maxRepositoryBytes: 5 });
});

test('sums are computed only for limits that exist', async () => {
  const { quota, asked } = quotaOf({});
  for (const repository of ['team/app', own, network]) await quota.admit(repository, 1e12);
  assert.deepEqual(asked, []);
  const limited = quotaOf({}, { maxBytes: 1000 });
  for (const repository of ['team/app', own, network]) await limited.quota.admit(repository, 1);
  assert.deepEqual(limited.asked, ['contexts/networks'], 'the limit of all networks');
});

test('each upload counts for the others, in its repository, among networks and in all', () => {
  const reserve = createReservations();
  const [first, second] = [reserve(network), reserve(network)];
  const [mine, app] = [reserve(own), reserve('team/app')];
  first.set(1);
  second.set(10);
  mine.set(100);
  app.set(1000);
  assert.deepEqual(first.others(), { inRepository: 10, inAnonymous: 10, inAll: 1110 });
  assert.deepEqual(second.others(), { inRepository: 1, inAnonymous: 1, inAll: 1101 });
  assert.deepEqual(mine.others(), { inRepository: 0, inAnonymous: 11, inAll: 1011 });
  assert.deepEqual(app.others(), { inRepository: 0, inAnonymous: 11, inAll: 111 });
  second.set(5);
  first.set(0);
  const next = reserve(network);
  assert.deepEqual(next.others(), { inRepository: 5, inAnonymous: 5, inAll: 1105 });
  for (const one of [second, mine, app]) one.set(0);
  assert.deepEqual(next.others(), { inRepository: 0, inAnonymous: 0, inAll: 0 });
});
