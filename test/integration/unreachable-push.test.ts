/** A builder that cannot reach the server: in its own network, 127.0.0.1 is the builder itself. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { test } from 'node:test';
import { startBuildkitd } from '../world/buildkitd.ts';
import { freePort } from '../world/free-port.ts';
import { startSluice } from '../world/sluice.ts';
import { sluiceCommand } from '../world/sluice-command.ts';
import { makeTempDir } from '../world/temp-dir.ts';

test('a failed push reports its phase, the address and the remedy', async () => {
  await using directory = await makeTempDir('push');
  await using buildkitd = await startBuildkitd();
  // Where the builder looks for the server, nobody listens.
  const elsewhere = `127.0.0.1:${await freePort()}`;
  await using sluice = await startSluice({
    env: { SLUICE_URL: `http://${elsewhere}` },
    config: { buildkit: [buildkitd.address] },
  });
  const file = directory.join('Dockerfile');
  await writeFile(file, 'FROM scratch\nLABEL made=here\n');
  const { code, stderr } = await sluiceCommand(['build', '-f', file, '--await'], {
    SLUICE_SERVER: sluice.url,
  });
  assert.notEqual(code, 0);
  const [failed = ''] = /The build failed: .*/.exec(stderr) ?? [];
  assert.ok(
    failed.includes(`the push failed: the builder cannot reach ${elsewhere} (connection refused)`),
    stderr,
  );
  assert.match(failed, /'docker compose -f builder\/compose\.yaml up -d'.*SLUICE_URL/);
});
