/** Mounts of a killed builder. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { build, connect } from '../../src/buildkit/index.ts';
import { releaseMounts } from '../../src/builds/builder/contained/leftovers.ts';
import { findBuilders } from '../../src/builds/builder/find-builders.ts';
import { anonymousDomain, domainLabel } from '../../src/builds/domain.ts';
import { createLogger } from '../../src/foundation/telemetry.ts';
import { pushCorpus } from '../corpus/corpus.ts';
import { eventually } from '../world/eventually.ts';
import { startRegistry } from '../world/registry.ts';
import { makeTempDir } from '../world/temp-dir.ts';
import { buildkitDirectory } from '../world/tools.ts';

function mountsBelow(folder: string): string[] {
  const table = readFileSync('/proc/self/mountinfo', 'utf8').split('\n');
  return table.map(line => line.split(' ')[4] ?? '').filter(place => place.startsWith(folder));
}

/** The process that has the word among its arguments, and the folder. */
function processOf(word: string, folder: string): number | undefined {
  const ids = readdirSync('/proc').filter(name => /^\d+$/.test(name));
  const found = ids.find(id => {
    try {
      const [program = '', ...args] = readFileSync(`/proc/${id}/cmdline`, 'utf8').split('\0');
      return program.endsWith(word) && args.some(arg => arg.includes(folder));
    } catch {
      return false;
    }
  });
  return found === undefined ? undefined : Number(found);
}

test("mounts of BuildKit's worker are released, and a disk of the operator stays", async () => {
  await using directory = await makeTempDir('mounts');
  const state = directory.join('state');
  const rootfs = directory.join('state/runc-overlayfs/executor/a b/rootfs');
  const mount = (place: string) => {
    mkdirSync(place, { recursive: true });
    execFileSync('mount', ['-t', 'tmpfs', 'tmpfs', place]);
  };
  mount(state);
  try {
    mount(rootfs);
    mount(rootfs);
    assert.equal(mountsBelow(directory.path).length, 3);
    assert.equal(await releaseMounts(directory.path), 2);
    assert.deepEqual(mountsBelow(directory.path), [state]);
  } finally {
    execFileSync('umount', ['--lazy', '--recursive', state]);
  }
});

test('a builder that is killed during a build leaves no mount', async () => {
  await using registry = await startRegistry();
  const base = (await pushCorpus(registry, ['busybox:oci'])).get('busybox:oci')?.reference ?? '';
  await using directory = await makeTempDir('killed');
  const found = findBuilders({
    ...{ configured: [], usual: [], plainHttp: [registry.host] },
    directory: directory.join('buildkit'),
    folders: [buildkitDirectory()],
    log: createLogger('silent'),
  });
  try {
    const [builder] = await found.find(anonymousDomain);
    const client = connect(builder?.address ?? '');
    const dockerfile = `FROM ${base}\nRUN sleep 986\n`;
    const ended = build(client, { dockerfile, noCache: true }).catch(() => {});
    const mounts = () =>
      mountsBelow(`${directory.path}/buildkit/domain-${domainLabel(anonymousDomain)}/state/`);
    await eventually('the step runs', () => mounts().length > 0, 60_000);
    process.kill(processOf('buildkitd', directory.path) ?? assert.fail('no builder'), 'SIGKILL');
    await ended;
    client.close();
    await eventually('nothing is mounted', () => mounts().length === 0);
  } finally {
    await found.close();
  }
});
