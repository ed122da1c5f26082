/** Builds of many anonymous callers and of one user, on a server whose builds are open. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { pushCorpus } from '../corpus/corpus.ts';
import { startBuildkitd } from '../world/buildkitd.ts';
import { eventually } from '../world/eventually.ts';
import { newAccessToken } from '../world/platform-user.ts';
import { startRegistry } from '../world/registry.ts';
import { startSluice } from '../world/sluice.ts';

const administrator = { name: 'admin', password: 'secret' };
const authorization = `Basic ${Buffer.from('admin:secret').toString('base64')}`;

test("long builds of ten networks neither delay a user's build nor fill the queue", async () => {
  await using registry = await startRegistry();
  const base = (await pushCorpus(registry, ['busybox:oci'])).get('busybox:oci')?.reference;
  await using first = await startBuildkitd();
  await using second = await startBuildkitd();
  await using sluice = await startSluice({
    config: {
      accounts: { [administrator.name]: administrator.password },
      // One of them is kept for users.
      buildkit: [first.address, second.address],
      registries: { [registry.host]: { plainHttp: true } },
      access: { builds: 'open' },
      builds: { maxWaiting: 20 },
      // The callers of this test come from many networks.
      trustedProxies: 1,
    },
  });

  /** Requests a build of a new image, from an address or with a token. */
  const ask = async (command: string, caller: { from?: string; token?: string }) => {
    const dockerfile = `FROM ${base}\nRUN echo ${randomUUID()}; ${command}\n`;
    const response = await sluice.fetch('/v1alpha2/container', {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        'x-forwarded-for': caller.from ?? '192.0.2.1',
      },
      body: JSON.stringify({
        containerFile: Buffer.from(dockerfile).toString('base64'),
        ...(caller.token === undefined ? {} : { towerAccessToken: caller.token }),
      }),
    });
    const body = (await response.json()) as { message: string; buildId: string };
    return { status: response.status, retryAfter: response.headers.get('retry-after'), ...body };
  };
  const phaseOf = async (id: string) => {
    const details = await sluice.fetch(`/v1alpha1/builds/${id}`);
    return ((await details.json()) as { phase?: string }).phase ?? 'finished';
  };

  const anonymousCallers: string[] = [];
  for (let at = 1; at <= 10; at += 1) {
    const { status, message, buildId } = await ask('sleep 600', { from: `198.51.100.${at}` });
    assert.equal(status, 200, message);
    anonymousCallers.push(buildId);
  }
  const phases = () => Promise.all(anonymousCallers.map(phaseOf));
  const [running, ...others] = ['running', ...Array.from({ length: 9 }, () => 'queued')];
  await eventually('one build of a stranger runs', async () => (await phases())[0] === running);

  // The other half of the queue is kept for users.
  const refused = await ask('true', { from: '203.0.113.1' });
  assert.equal(refused.status, 503);
  assert.equal(refused.retryAfter, '60');
  assert.match(
    refused.message,
    /^10 builds of callers without a login run or wait already, .* send the request with an access token/,
  );

  const token = await newAccessToken(sluice, administrator, 'ada@example.com');
  for (let count = 0; count < 2; count += 1) {
    const { status, message, buildId } = await ask('true', { token });
    assert.equal(status, 200, message);
    const log = await sluice.fetch(`/v1alpha1/builds/${buildId}/logs?follow=true`);
    assert.match(await log.text(), /The build succeeded/);
    assert.deepEqual(await phases(), [running, ...others]);
  }

  for (const id of anonymousCallers) {
    await sluice.fetch(`/v1alpha1/builds/${id}`, { method: 'DELETE', headers: { authorization } });
  }
  await eventually('all builds have ended', async () =>
    (await phases()).every(phase => phase === 'finished'),
  );
});
