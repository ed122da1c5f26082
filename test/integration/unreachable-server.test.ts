/** A builder that cannot reach the server: in its own network, 127.0.0.1 is the builder itself. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { test } from 'node:test';
import { pushCorpus } from '../corpus/corpus.ts';
import { startBuildkitd } from '../world/buildkitd.ts';
import { freePort } from '../world/free-port.ts';
import { startRegistry } from '../world/registry.ts';
import { startSluice } from '../world/sluice.ts';
import { sluiceCommand } from '../world/sluice-command.ts';
import { makeTempDir } from '../world/temp-dir.ts';

test('a builder that cannot reach the server: the failure has the address and the remedy', async () => {
  await using directory = await makeTempDir('unreachable');
  await using registry = await startRegistry();
  const pushed = await pushCorpus(registry, ['busybox:oci']);
  await using buildkitd = await startBuildkitd();
  // Where the builder looks for the server, nobody listens.
  const elsewhere = `127.0.0.1:${await freePort()}`;
  await using sluice = await startSluice({
    env: { SLUICE_URL: `http://${elsewhere}` },
    config: {
      buildkit: [buildkitd.address],
      registries: { [registry.host]: { plainHttp: true } },
    },
  });
  const file = directory.join('Dockerfile');
  await writeFile(file, `FROM ${pushed.get('busybox:oci')?.reference}\nLABEL made=here\n`);
  const { code, stderr } = await sluiceCommand(['build', '-f', file, '--await'], {
    SLUICE_SERVER: sluice.url,
  });
  assert.notEqual(code, 0);
  const [failed = ''] = /The build failed: .*/.exec(stderr) ?? [];
  assert.ok(
    failed.includes(
      `a base image is unavailable (Dockerfile, line 1): the builder cannot reach ${elsewhere} (connection refused)`,
    ),
    stderr,
  );
  assert.match(failed, /'docker compose -f builder\/compose\.yaml up -d'.*SLUICE_URL/);
});
