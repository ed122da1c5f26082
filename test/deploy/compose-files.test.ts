/** The files for Docker Compose give containers few rights, and limits. Those of a release run its image. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { cp, mkdir, readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { parse } from 'yaml';
import { makeTempDir } from '../world/temp-dir.ts';

interface Service {
  readonly read_only?: boolean;
  readonly cap_drop?: readonly string[];
  readonly security_opt?: readonly string[];
  readonly restart?: string;
  readonly privileged?: boolean;
  readonly mem_limit?: string;
  readonly pids_limit?: number;
  readonly volumes?: readonly string[];
  readonly extends?: object;
  readonly image?: string;
  readonly build?: string;
}

/** The services that run a server, by file. */
const servers = {
  'compose.yaml': ['sluice'],
  'deploy/compose/compose.yaml': ['replica-1', 'replica-2', 'replica-3'],
};

test('servers have a read-only root, no capabilities, no new privileges and limits; only builders are privileged', async () => {
  for (const [path, names] of Object.entries(servers)) {
    const text = await readFile(new URL(`../../${path}`, import.meta.url), 'utf8');
    const { services } = parse(text, { merge: true }) as { services: Record<string, Service> };
    for (const name of names) {
      const { read_only, cap_drop, security_opt, mem_limit, pids_limit } = services[name] ?? {};
      assert.deepEqual(
        { read_only, cap_drop, security_opt },
        { read_only: true, cap_drop: ['ALL'], security_opt: ['no-new-privileges:true'] },
        `${path}: ${name}`,
      );
      assert.ok(mem_limit && pids_limit, `${path}: ${name}`);
    }
    for (const [name, service] of Object.entries(services)) {
      // Builders have theirs in builder/service.yaml.
      if (service.extends) continue;
      if (service.restart) assert.ok(service.mem_limit, `${path}: ${name}`);
      assert.equal(service.privileged, undefined, `${path}: ${name}`);
      const sockets = (service.volumes ?? []).filter(text => text.includes('docker.sock'));
      assert.deepEqual(sockets, [], `${path}: ${name}`);
    }
  }
});

test('a release has files whose services run its image, and build nothing', async () => {
  const project = fileURLToPath(new URL('../..', import.meta.url));
  const workflow = parse(await readFile(`${project}/.github/workflows/release.yml`, 'utf8'));
  const step = workflow.jobs.chart.steps.find(({ name = '' }: { readonly name?: string }) =>
    name.startsWith('The files for Docker Compose'),
  );
  await using folder = await makeTempDir('release');
  for (const path of ['compose.yaml', 'sluice.yaml', 'LICENSE', 'builder', 'deploy/compose']) {
    await cp(`${project}/${path}`, folder.join(path), { recursive: true });
  }
  execFileSync('bash', ['-euc', step.run], {
    cwd: folder.path,
    env: { PATH: process.env.PATH, GITHUB_REPOSITORY: 'Some/Sluice', GITHUB_REF_NAME: 'v1.2.3' },
  });
  const image = 'ghcr.io/some/sluice:1.2.3';
  const unpacked = folder.join('unpacked');
  await mkdir(unpacked);
  execFileSync('tar', ['-xzf', folder.join('.chart/sluice-compose.tar.gz'), '-C', unpacked]);
  for (const [path, names] of Object.entries(servers)) {
    const text = await readFile(`${unpacked}/${path}`, 'utf8');
    const { services } = parse(text, { merge: true }) as { services: Record<string, Service> };
    for (const [name, { build, extends: base }] of Object.entries(services)) {
      assert.equal(build, undefined, `${path}: ${name}`);
      if (base) assert.ok(await readFile(`${unpacked}/builder/service.yaml`));
    }
    const named = names.map(name => services[name]?.image?.replace(/^\$\{\w+:-(.*)\}$/, '$1'));
    assert.deepEqual(
      named,
      names.map(() => image),
    );
  }
});
