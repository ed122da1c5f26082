/** Dry runs solve on the one thread of the solver: a caller has one turn at a time. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { planBuild } from '../../src/builds/plan/plan.ts';
import { Fault } from '../../src/foundation/fault.ts';
import { createDryRun, type DryRunDeps } from '../../src/request/dry-run.ts';

const places = { repository: 'registry.test/builds', cache: undefined, frozen: {} };

test('the dry runs of one caller are solved one after the other, beside those of another', async () => {
  const active = new Map<string, number>();
  let most = 0;
  let together = 0;
  const release = Promise.withResolvers<void>();
  const seen = Promise.withResolvers<void>();
  const deps = {
    ...{ places, findServed: async () => undefined, layers: { take: async () => [] } },
    ...{ includes: { named: async () => [] }, onlyFrozen: 'off' },
    build: { plan: async () => planBuild({ packages }, places) },
    identities: { find: async () => undefined },
    accessToBuilt: async () => ({ registry: 'registry.test', repository: 'builds' }),
    registry: {
      async headManifest(_: unknown, reference: string) {
        if (reference === '12') return { digest: `sha256:${'0'.repeat(64)}`, mediaType: 'x' };
        throw new Fault('manifest-unknown', 'not there');
      },
    },
    requireBuilder: async () => {},
    async solutionOf(_: unknown, grant: string) {
      active.set(grant, (active.get(grant) ?? 0) + 1);
      most = Math.max(most, ...active.values());
      together = Math.max(together, active.size);
      if (together === 2) seen.resolve();
      await release.promise;
      active.set(grant, (active.get(grant) ?? 0) - 1);
      return { platforms: [] };
    },
  } as unknown as DryRunDeps;
  const dryRun = createDryRun(deps);
  const packages = { type: 'CONDA', entries: ['a'], condaOpts: { baseImage: 'debian:12' } };
  const ask = (user: string) => {
    const caller = { user, address: '127.0.0.1', grant: user } as unknown as Parameters<
      typeof dryRun
    >[2];
    return dryRun({ packages }, 'v1alpha2', caller);
  };
  const asked = [ask('one'), ask('one'), ask('one'), ask('other')];
  await seen.promise;
  release.resolve();
  const forecasts = await Promise.all(asked);
  assert.ok(forecasts.every(({ solution }) => solution !== undefined));
  assert.equal(most, 1);
});
