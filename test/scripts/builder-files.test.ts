/** The files of the builder in Docker agree with the rest of the project. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';

const read = (path: string) => readFile(new URL(`../../${path}`, import.meta.url), 'utf8');

test('the builder closes the addresses that Sluice closes', async () => {
  const [, list = ''] = /^closed='([^']*)'/m.exec(await read('builder/start.sh')) ?? [];
  const guard = await read('src/upstream/transport/address-guard.ts');
  const closed = [...guard.matchAll(/^ {2}\['([\d.]+)', (\d+)\],$/gm)];
  assert.deepEqual(
    list.split(/\s+/),
    closed.map(([, network, prefix]) => `${network}/${prefix}`),
  );
});

test('its image is a release by its version, and has none of the known vulnerabilities', async () => {
  const service = await read('builder/service.yaml');
  const [, major, minor] =
    /image: \$\{SLUICE_BUILDKIT_IMAGE:-moby\/buildkit:v(\d+)\.(\d+)\.\d+\}/.exec(service) ?? [];
  // CVE-2026-15792, and those before it, are fixed since 0.31.2.
  assert.ok(Number(major) > 0 || Number(minor) >= 32, service);
});
