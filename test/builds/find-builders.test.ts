/** The choice of a builder on a machine, and the messages without a usable one. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { rm, rmdir, writeFile } from 'node:fs/promises';
import { createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { suite, test } from 'node:test';
import { connect } from '../../src/buildkit/index.ts';
import { type Builders, createBuilders } from '../../src/builds/builder/builders.ts';
import { type FindBuildersOptions, findBuilders } from '../../src/builds/builder/find-builders.ts';
import {
  anonymousDomain,
  domainLabel,
  domainOfCaller,
  type TrustDomain,
} from '../../src/builds/domain.ts';
import { createLogger } from '../../src/foundation/telemetry.ts';
import { startBuildkitd } from '../world/buildkitd.ts';
import { startDocker } from '../world/docker.ts';
import { eventually } from '../world/eventually.ts';
import { makeTempDir, type TempDir } from '../world/temp-dir.ts';
import { buildkitDirectory, requireCommand } from '../world/tools.ts';

const log = createLogger('silent');
const never = new AbortController().signal;
const user = domainOfCaller({ owner: 'one', isTrusted: true });

const options = (directory: TempDir, more: Partial<FindBuildersOptions>): FindBuildersOptions => ({
  configured: [],
  usual: [],
  directory: directory.join('buildkit'),
  // Nothing of this machine.
  path: '',
  folders: [],
  plainHttp: [],
  log,
  ...more,
});

/** The builders of a test, released at its end: a builder of Sluice would keep the process alive. */
const findAll = (directory: TempDir, more: Partial<FindBuildersOptions>) => {
  const found = findBuilders(options(directory, more));
  const builders = createBuilders({ source: found, log });
  return {
    ...found,
    builders,
    find: async () => (await found.find(user)).map(({ address }) => address),
    async [Symbol.asyncDispose]() {
      await builders.close();
      await found.close();
    },
  };
};

const refusal = async (builders: Builders): Promise<string> => {
  try {
    await builders.require(user);
  } catch (error) {
    return (error as Error).message;
  }
  return 'none';
};

suite('Docker engines', { concurrency: 3 }, () => {
  const engines = [
    ['bookworm', 'overlay2', false],
    ['trixie', 'overlay2', false],
    ['trixie', 'containerd', true],
    ['forky', 'overlay2', false],
    ['forky', 'containerd', true],
  ] as const;
  for (const [release, store, isAble] of engines) {
    test(`${release} with ${store} ${isAble ? 'builds' : 'is reported as unable to push'}`, async () => {
      await using directory = await makeTempDir('find');
      await using docker = await startDocker({ suite: release, store });
      const address = `docker+unix://${docker.socket}`;
      // Configured and found builders behave the same.
      for (const more of [{ configured: [address] }, { usual: [address] }]) {
        await using found = findAll(directory, more);
        const { builders } = found;
        assert.deepEqual(await found.find(), [address]);
        const use = () =>
          builders.use({ domain: user, platforms: [] }, never, async client => client.address);
        if (isAble) {
          assert.equal(await refusal(builders), 'none');
          assert.equal(await use(), address);
        } else {
          const advice = /Docker engine .* cannot push .*containerd-snapshotter.*SLUICE_BUILDKIT/;
          assert.match(await refusal(builders), advice);
          await assert.rejects(use(), advice);
        }
      }
    });
  }

  test('an engine that cannot push is the last choice', async () => {
    await using directory = await makeTempDir('find');
    await using docker = await startDocker({ suite: 'bookworm' });
    await using buildkitd = await startBuildkitd();
    const engine = `docker+unix://${docker.socket}`;
    await using running = findAll(directory, { usual: [engine, buildkitd.address] });
    assert.deepEqual(await running.find(), [buildkitd.address]);
    const folders = [buildkitDirectory()];
    await using own = findAll(directory, { usual: [engine], folders, path: undefined });
    const [address = ''] = await own.find();
    assert.match(address, /^unix:.*sluice-buildkit-/);
  });
});

const limits = { memoryBytes: 2 ** 28, processes: 100, processors: undefined };
const containment = {
  openHosts: { builder: [], steps: [] },
  ...{ each: limits, all: limits, buildDiskBytes: 2 ** 28, stateBytes: 2 ** 29 },
};

test('callers without a login get a contained builder of Sluice, or none, even if another builder runs', async () => {
  await using directory = await makeTempDir('find');
  await using buildkitd = await startBuildkitd();
  const usual = [buildkitd.address];
  const more = { usual, folders: [buildkitDirectory()], path: undefined };
  await using contained = findAll(directory, { ...more, containment });
  const known = await contained.builders.use(
    { domain: user, platforms: [] },
    never,
    async ({ address }) => address,
  );
  assert.equal(known, buildkitd.address);
  const own = await contained.builders.use(
    { domain: anonymousDomain, platforms: [] },
    never,
    async ({ address }) => address,
  );
  assert.match(own, /^unix:.*sluice-buildkit-/);

  await using foreign = findAll(directory, more);
  assert.equal(await refusal(foreign.builders), 'none');
  const refused = { kind: 'unauthorized', message: /only for callers with a login/ };
  await assert.rejects(foreign.builders.require(anonymousDomain), refused);
  const use = foreign.builders.use(
    { domain: anonymousDomain, platforms: [] },
    never,
    async () => {},
  );
  await assert.rejects(use, refused);

  await using listed = findAll(directory, { ...more, open: [buildkitd.address] });
  await listed.builders.require(anonymousDomain);
});

test('a contained builder that failed to start, or lost its disk, is restarted', async () => {
  await using directory = await makeTempDir('find');
  const broken = directory.join('broken');
  await writeFile(broken, '');
  const ip = requireCommand('ip');
  const script = `#!/bin/sh\ncase "$*" in *veth*) [ ! -e ${broken} ] || exit 2 ;; esac\nexec ${ip} "$@"\n`;
  await writeFile(directory.join('ip'), script, { mode: 0o755 });
  const folders = [directory.path, buildkitDirectory()];
  const more = { folders, path: undefined, containment, retryMs: 1 };
  await using found = findAll(directory, more);
  const { builders } = found;
  const addressFor = (domain: TrustDomain) =>
    builders.use({ domain, platforms: [] }, never, async ({ address }) => address);
  const standIn = await addressFor(user);
  await assert.rejects(addressFor(anonymousDomain), { kind: 'unauthorized' });
  await rm(broken);
  let contained = standIn;
  await eventually('the contained builder is there', async () => {
    contained = await addressFor(anonymousDomain).catch(() => standIn);
    return contained !== standIn;
  });
  assert.ok(!contained.startsWith(`unix://${tmpdir()}/`), 'where files of some age are removed');
  const improved = await addressFor(user);
  assert.notEqual(improved, standIn);
  assert.notEqual(improved, contained);

  // What cleans old files up: the mount inside goes with its mount point.
  await rmdir(new URL(contained.replace('buildkitd.sock', 'state')).pathname);
  assert.notEqual(await addressFor(anonymousDomain), contained);
  assert.equal(await addressFor(user), improved, 'the builder of another domain is not affected');
});

test('an unused socket is skipped', async () => {
  await using directory = await makeTempDir('find');
  const dead = directory.join('dead.sock');
  const connections: Socket[] = [];
  const mute = createServer(socket => connections.push(socket));
  mute.listen(directory.join('mute.sock'));
  await using buildkitd = await startBuildkitd();
  const usual = [dead, directory.join('mute.sock')].map(path => `unix://${path}`);
  const left = spawn(process.execPath, [
    '-e',
    `require('net').createServer().listen(${JSON.stringify(dead)}, () => process.kill(process.pid, 'SIGKILL'))`,
  ]);
  await once(left, 'exit');
  try {
    await using found = findAll(directory, { usual: [...usual, buildkitd.address] });
    assert.deepEqual(await found.find(), [buildkitd.address]);
    assert.equal(connections.length, 1);
  } finally {
    mute.close();
    for (const connection of connections) connection.destroy();
  }
});

suite('a builder that exists but cannot be used is reported', () => {
  /** Returns the log and the caller's message of a search among these addresses. */
  const report = async (directory: TempDir, usual: readonly string[]) => {
    const lines: string[] = [];
    const sink = { write: (line: string) => void lines.push(line) };
    await using found = findAll(directory, { usual, log: createLogger('warn', sink) });
    const said = [await refusal(found.builders), await refusal(found.builders)];
    return { said, warnings: lines.filter(line => line.includes('cannot be used')) };
  };

  test('one whose socket this user may not open', async () => {
    await using directory = await makeTempDir('find');
    await using buildkitd = await startBuildkitd();
    await using docker = await startDocker({ suite: 'bookworm' });
    // Loaded before, because another user may not read the project.
    await import('../../src/buildkit/index.ts');
    const nobody = 65_534;
    for (const address of [buildkitd.address, `docker+unix://${docker.socket}`]) {
      process.seteuid?.(nobody);
      try {
        const { said, warnings } = await report(directory, [address]);
        for (const message of said) {
          assert.match(
            message,
            /cannot use the builder that it found: permission denied: .*--group/,
          );
          assert.doesNotMatch(message, /\.sock/);
        }
        assert.equal(warnings.length, 1, 'once');
        assert.ok(warnings[0]?.includes(address));
      } finally {
        process.seteuid?.(0);
      }
    }
  });

  test('one that has ended and left its socket behind', async () => {
    await using directory = await makeTempDir('find');
    const path = directory.join('dead.sock');
    const left = spawn(process.execPath, [
      '-e',
      `require('net').createServer().listen(${JSON.stringify(path)}, () => process.kill(process.pid, 'SIGKILL'))`,
    ]);
    await once(left, 'exit');
    for (const scheme of ['unix', 'docker+unix']) {
      const { said } = await report(directory, [`${scheme}://${path}`]);
      assert.match(said[0] ?? '', /nothing listens on the builder's socket/);
    }
  });
});

test('without a builder, the message explains how to get one', async () => {
  await using directory = await makeTempDir('find');
  for (const more of [{}, { configured: ['off'] }]) {
    await using found = findAll(directory, more);
    assert.match(await refusal(found.builders), /no builder: .*docker compose .*SLUICE_BUILDKIT/);
  }
});

test('builds wait for an installation, and a failed installation is not repeated', async () => {
  await using directory = await makeTempDir('find');
  const installed = Promise.withResolvers<void>();
  let installations = 0;
  await using found = findAll(directory, {
    bring() {
      installations += 1;
      return installed.promise;
    },
  });
  const { builders } = found;
  await eventually('it is being installed', () => builders.isComing());
  assert.equal(await refusal(builders), 'none');
  // Without its own network, the builder will be closed to these callers: they do not wait for it in vain.
  await assert.rejects(builders.require(anonymousDomain), /only for callers with a login/);
  await builders.untilThere(anonymousDomain, never);
  const waiting = builders.untilThere(user, never);
  const using = assert.rejects(
    builders.use({ domain: user, platforms: [] }, never, async () => {}),
    /no builder/,
  );
  installed.reject(new Error('no network'));
  await waiting;
  await using;
  assert.equal(builders.isComing(), false);
  assert.match(await refusal(builders), /no builder/);
  assert.equal(installations, 1);
});

suite('the builder that Sluice starts', () => {
  const folders = [buildkitDirectory()];

  const argumentsOf = (processId: string): string[] => {
    try {
      return readFileSync(`/proc/${processId}/cmdline`, 'utf8').split('\0');
    } catch {
      // It has ended since it was listed.
      return [];
    }
  };

  /** Returns the number of the buildkitd with the configuration in this directory. */
  const processOf = (directory: TempDir): number => {
    const config = directory.join(`buildkit/domain-${domainLabel(user)}/buildkitd.toml`);
    const numbers = readdirSync('/proc').filter(name => /^\d+$/.test(name));
    const own = numbers.filter(number => {
      const words = argumentsOf(number);
      return words[0]?.endsWith('/buildkitd') && words.includes(config);
    });
    assert.equal(own.length, 1);
    return Number(own[0]);
  };

  const isThere = (processId: number): boolean => {
    try {
      return process.kill(processId, 0);
    } catch {
      return false;
    }
  };

  test('starts on demand, restarts after a failure, and ends with the server', async () => {
    await using directory = await makeTempDir('find');
    await using found = findAll(directory, { folders, path: undefined });
    const { builders } = found;
    const pid = () =>
      builders.use({ domain: user, platforms: [] }, never, async () => processOf(directory));
    const [first, same] = await Promise.all([pid(), pid()]);
    assert.equal(first, same, 'one for all simultaneous callers');
    process.kill(first, 'SIGKILL');
    await eventually('the builder has ended', () => !isThere(first));
    const [second, third] = await Promise.all([pid(), pid()]);
    assert.notEqual(second, first);
    assert.equal(second, third);
    await builders.close();
    await found.close();
    assert.equal(isThere(second), false);
  });

  test('does not keep its state from the next server after a kill', async () => {
    await using directory = await makeTempDir('find');
    const program = `
      const { findBuilders } = await import(process.argv[1]);
      const options = JSON.parse(process.argv[2]);
      const log = { info() {}, warn: console.error, error: console.error };
      const found = findBuilders({ ...options, log });
      console.log(await found.find({ name: 'user one', customer: 'known', isAlone: false }));
      setInterval(() => {}, 1000);`;
    const module = new URL('../../src/builds/builder/find-builders.ts', import.meta.url).href;
    const { log: _, ...plain } = options(directory, { folders, path: undefined });
    const killed = spawn(
      process.execPath,
      ['--input-type=module', '-e', program, module, JSON.stringify(plain)],
      // Its leftovers are removed with the directory.
      { stdio: ['ignore', 'pipe', 'inherit'], env: { ...process.env, TMPDIR: directory.path } },
    );
    await once(killed.stdout, 'data');
    killed.kill('SIGKILL');
    await using found = findAll(directory, { folders, path: undefined });
    const [address = ''] = await found.find();
    const client = connect(address);
    try {
      assert.ok((await client.info()).version);
    } finally {
      client.close();
    }
  });
});
