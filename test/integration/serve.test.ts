import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pushCorpus } from '../corpus/corpus.ts';
import { startRegistry } from '../world/registry.ts';
import { startSluice } from '../world/sluice.ts';

test('a served name carries the requested environment', async () => {
  await using registry = await startRegistry();
  await pushCorpus(registry, ['cfg:full']);
  await using sluice = await startSluice({
    config: { registries: { [registry.host]: { plainHttp: true } } },
  });
  const { targetImage, digest } = await sluice.request({
    containerImage: `${registry.host}/corpus/cfg:full`,
    containerConfig: { env: ['A=1'] },
  });
  const answer = await fetch(sluice.at(targetImage, 'manifests/full'));
  assert.equal(answer.status, 200);
  assert.equal(answer.headers.get('docker-content-digest'), digest);
  const { config } = (await answer.json()) as { config: { digest: string } };
  const served = await fetch(sluice.at(targetImage, `blobs/${config.digest}`));
  const { config: runtime } = (await served.json()) as { config: { Env: string[] } };
  assert.ok(runtime.Env.includes('A=1'));
});
