/** The files for Docker Compose give containers few rights, and limits. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { parse } from 'yaml';

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
