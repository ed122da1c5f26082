/** Leftovers of a killed builder that Sluice started, and the treatment of a damaged disk. */
import assert from 'node:assert/strict';
import { existsSync, globSync, readdirSync, readFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { connect } from '../../src/buildkit/index.ts';
import { startOwnBuilder } from '../../src/builds/builder/own/own-builder.ts';
import { createLogger } from '../../src/foundation/telemetry.ts';
import { startDaemon, waitForLine } from '../world/daemon.ts';
import { eventually } from '../world/eventually.ts';
import { makeTempDir, type TempDir } from '../world/temp-dir.ts';
import { optionsFor, tryBuild } from './contained-world.ts';

/** Everything of a builder that is on this machine. */
function tracesOf(directory: string): string[] {
  const processes = readdirSync('/proc')
    .filter(name => /^\d+$/.test(name))
    .filter(name => {
      try {
        return readFileSync(`/proc/${name}/cmdline`, 'utf8').includes(directory);
      } catch {
        // It has ended since it was listed.
        return false;
      }
    });
  const loops = globSync('/sys/block/loop*/loop/backing_file').filter(file => {
    try {
      return readFileSync(file, 'utf8').startsWith(directory);
    } catch {
      return false;
    }
  });
  const mounts = readFileSync('/proc/self/mounts', 'utf8').split('\n');
  return [...processes, ...loops, ...mounts.filter(line => line.includes(directory))];
}

function noteOf(directory: string): { group: string; folder: string } {
  return JSON.parse(readFileSync(`${directory}/running.json`, 'utf8'));
}

function groupsOf(name: string): string[] {
  return globSync(`/sys/fs/cgroup/{,*/}${name}`);
}

test('two builders at once; the processes of a killed server end, and the next start removes the rest', async () => {
  await using first = await makeTempDir('contained');
  await using second = await makeTempDir('contained');
  const program = fileURLToPath(new URL('../world/own-builder-program.ts', import.meta.url));
  const start = async (directory: TempDir) => {
    const options = optionsFor(directory);
    const daemon = startDaemon(process.execPath, [program, JSON.stringify(options)], {
      stdin: 'pipe',
    });
    const [, address = ''] = await waitForLine(daemon, /^contained true (unix:.*)$/);
    return { daemon, address, directory: options.directory };
  };
  const [killed, other] = await Promise.all([start(first), start(second)]);
  const clients = [killed, other].map(({ address }) => connect(address));
  const [client, otherClient] = clients;
  assert.ok(client && otherClient);
  const before = noteOf(killed.directory);
  assert.notEqual(before.group, noteOf(other.directory).group);
  const running = tryBuild(client, 'RUN echo begun; sleep 1000');
  const isRunning = () =>
    groupsOf(before.group).some(group => globSync(`${group}/**/cgroup.procs`).length > 1);
  await eventually('a step runs', isRunning);
  killed.daemon.process.kill('SIGKILL');
  assert.equal((await running).failure?.kind, 'unavailable');
  await eventually('nothing of it is left', () => tracesOf(killed.directory).length === 0);
  assert.equal((await tryBuild(otherClient, 'RUN echo fine')).failure, undefined);

  const again = await start(first);
  assert.deepEqual(groupsOf(before.group), []);
  assert.equal(existsSync(before.folder), false);
  const nextClient = connect(again.address);
  clients.push(nextClient);
  assert.equal((await tryBuild(nextClient, 'RUN echo fine')).failure, undefined);
  const note = noteOf(again.directory);
  for (const { daemon, directory } of [again, other]) {
    daemon.process.stdin?.end();
    await daemon.ended;
    assert.deepEqual(tracesOf(directory), []);
  }
  assert.deepEqual(groupsOf(note.group), []);
  assert.equal(existsSync(note.folder), false);
  for (const one of clients) one.close();
});

test('a damaged disk is recreated', async () => {
  await using directory = await makeTempDir('contained');
  const options = { ...optionsFor(directory), log: createLogger('silent') };
  for (const damage of [undefined, Buffer.alloc(64 * 1024), Buffer.alloc(0)]) {
    const image = globSync(directory.join('builder/state-*.img'))[0];
    if (damage && image) {
      await using file = await open(image, 'r+');
      if (damage.length === 0) await file.truncate(0);
      else await file.write(damage, 0, damage.length, 0);
    }
    const builder = await startOwnBuilder(options);
    assert.equal(builder?.isContained, true);
    const client = connect(builder.address);
    try {
      const { log, failure } = await tryBuild(client, 'RUN echo fine');
      assert.equal(failure, undefined, log);
    } finally {
      client.close();
      await builder.stop();
    }
  }
});
