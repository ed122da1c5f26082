import assert from 'node:assert/strict';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { builderConfiguration } from '../../src/builds/builder/own/builder-process.ts';
import { ofKind, replacing } from '../deploy/helm-values.ts';
import { rendered } from '../deploy/helm-world.ts';
import { startBuildkitd } from '../world/buildkitd.ts';
import { runProgram } from '../world/program.ts';
import { makeTempDir } from '../world/temp-dir.ts';
import { buildkitDirectory } from '../world/tools.ts';

const section = /^ *\[cdi\]\n(?: *#.*\n)? *disabled = true$/m;

test('a builder has no devices with the section that all configurations of Sluice have', async () => {
  await using directory = await makeTempDir('devices');
  const own = builderConfiguration({ root: '/r', folder: '/f', plainHttp: [] }, []);
  const inDocker = await readFile('builder/buildkitd.toml', 'utf8');
  const maps = ofKind(await rendered(replacing), 'ConfigMap');
  const inCluster = maps.map(({ data }) => data?.['buildkitd.toml'] ?? '').join('');
  const sections = [own, inDocker, inCluster].map(text => section.exec(text)?.[0]);
  const devices = directory.join('devices');
  await mkdir(devices);
  await writeFile(join(devices, 'test.json'), JSON.stringify(device));
  const places = `specDirs = [${JSON.stringify(devices)}]\n`;
  assert.match(await workersOf(`[cdi]\n${places}`), /"test\.example\/device=one"/);
  for (const one of new Set(sections)) {
    assert.ok(one, 'a configuration has no such section');
    assert.doesNotMatch(await workersOf(`${one}\n${places}`), /test\.example/);
  }
});

// Every build gets it, without a request. Source: BuildKit, docs/cdi.md.
const device = {
  cdiVersion: '0.6.0',
  kind: 'test.example/device',
  devices: [
    {
      name: 'one',
      annotations: { 'org.mobyproject.buildkit.device.autoallow': 'true' },
      containerEdits: { env: ['DEVICE=one'] },
    },
  ],
};

async function workersOf(config: string): Promise<string> {
  await using buildkitd = await startBuildkitd({ config });
  const buildctl = join(buildkitDirectory(), 'buildctl');
  const command = [buildctl, '--addr', buildkitd.address, 'debug', 'workers'];
  const { stdout, stderr, code } = await runProgram([...command, '--format', '{{json .}}'], {
    env: {},
  });
  assert.equal(code, 0, stderr);
  return stdout;
}
