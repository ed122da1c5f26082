/** The files of the builder in Docker agree with the rest of the project. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { compileModule } from '../../scripts/tools/buildkit-go.ts';
import { buildkitVersion } from '../world/tools.ts';

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

test('one version of BuildKit is everywhere, and has none of the known vulnerabilities', async () => {
  const image = `moby/buildkit:v${buildkitVersion}`;
  for (const [path, line] of [
    ['builder/service.yaml', `image: \${SLUICE_BUILDKIT_IMAGE:-${image}}`],
    ['deploy/helm/values.yaml', `image: docker.io/${image}-rootless`],
    ['docs/kubernetes.md', `${image}-rootless@sha256:`],
    ['docs/install.md', `docker pull ${image}`],
  ] as const) {
    const text = await read(path);
    assert.ok(text.includes(line), path);
    for (const [, version] of text.matchAll(/moby\/buildkit:v(\d[\d.]*\d)/g)) {
      assert.equal(version, buildkitVersion, path);
    }
  }
  const [major, minor] = buildkitVersion.split('.').map(Number);
  // CVE-2026-15792, and those before it, are fixed since 0.31.2.
  assert.ok((major ?? 0) > 0 || (minor ?? 0) >= 32);
});

test('another module under its version is refused', async () => {
  const response = JSON.stringify({ Dir: '/nowhere', Sum: 'h1:AAAA' });
  const commands: string[] = [];
  const runner = async (command: string, ...args: string[]) => {
    commands.push([command, ...args].join(' '));
    return response;
  };
  await assert.rejects(compileModule(runner, '/nowhere'), /another BuildKit .*h1:AAAA in place of/);
  assert.equal(commands.length, 1);
});
