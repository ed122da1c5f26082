/** Real clients push to and pull from the server over its own TLS. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pushCorpus } from '../corpus/corpus.ts';
import { makeCertificates } from '../world/certificates.ts';
import { pull } from '../world/clients.ts';
import { startDocker } from '../world/docker.ts';
import { startRegistry } from '../world/registry.ts';
import { startSluice } from '../world/sluice.ts';
import { makeTempDir } from '../world/temp-dir.ts';
import { trustFiles } from '../world/trust.ts';
import { assertSuccess, plainRegistries } from './served.ts';

test('docker, podman, skopeo, crane and oras, over TLS', async () => {
  await using directory = await makeTempDir('tls-clients');
  const certificates = await makeCertificates(directory.path);
  const { certificate, key } = certificates;
  await using registry = await startRegistry({});
  await pushCorpus(registry, ['cfg:full']);
  await using sluice = await startSluice({
    config: {
      ...plainRegistries(registry.host),
      accounts: { admin: 'open sesame' },
      tls: { listen: '127.0.0.1:0', certificate, key },
    },
  });
  const host = /"tls":"([^"]+)"/.exec(sluice.output())?.[1] ?? '';
  const { targetImage } = await sluice.request({
    containerImage: `${registry.host}/corpus/cfg:full`,
    containerConfig: { env: ['A=1'] },
  });
  assert.ok(targetImage.startsWith(`${host}/ct/`), targetImage);
  const files = await trustFiles({ host, certificates });
  await using docker = await startDocker({ suite: 'forky', files });
  for (const client of ['podman', 'skopeo', 'crane', 'oras'] as const) {
    assertSuccess(await pull(docker.root, client, targetImage, { tls: true }), client);
  }
  assertSuccess(await docker.pull(targetImage), 'docker pull');
  const account = { username: 'admin', password: 'open sesame' };
  assertSuccess(await docker.login(host, account), 'docker login');
  assertSuccess(await docker.push(targetImage, `${host}/team/app:1`), 'docker push');
  const own = `${host}/team/app:1`;
  assertSuccess(await pull(docker.root, 'skopeo', own, { tls: true, account }), 'skopeo');
});
