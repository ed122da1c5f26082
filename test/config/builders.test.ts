/** Builders in the configuration; builder-tls.test.ts covers certificates. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { test } from 'node:test';
import { loadConfig } from '../../src/server/config/load.ts';
import { makeTempDir } from '../world/temp-dir.ts';

const address = 'tcp://10.0.0.7:1234';

test('a builder on TCP without certificates causes a warning', async () => {
  await using directory = await makeTempDir('config');
  const file = directory.join('sluice.yaml');
  await writeFile(
    file,
    `buildkit: [unix:///run/b.sock, ${address}]\nbuildkitTls: { ${address}: { ca: ca.pem } }\n`,
  );
  const { config, warnings } = loadConfig({ SLUICE_CONFIG: file });
  assert.deepEqual(warnings, []);
  assert.equal(config.buildkitTls[address]?.ca, directory.join('ca.pem'), 'beside the file');
  const [warning = '', ...others] = loadConfig({ SLUICE_BUILDKIT: address }).warnings;
  assert.match(warning, /tcp:\/\/10\.0\.0\.7:1234 has no TLS: .*buildkitTls/);
  assert.deepEqual(others, []);
});

test('certificates belong to an address', async () => {
  await using directory = await makeTempDir('config');
  const file = directory.join('sluice.yaml');
  await writeFile(file, 'buildkitTls: { builder-1: { ca: ca.pem } }\n');
  assert.throws(() => loadConfig({ SLUICE_CONFIG: file }), /builder-1.*tcp:\/\/host:port/);
});
