import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { BuildError } from '../../src/buildkit/index.ts';
import { createWheelBuilds, mustBuild } from '../../src/builds/solve/wheels/build-wheels.ts';
import type { WheelResult, WheelRun } from '../../src/builds/solve/wheels/run-wheel-build.ts';
import type {
  SourceToBuild,
  WheelEnvironment,
} from '../../src/builds/solve/wheels/wheel-sources.ts';
import { Fault } from '../../src/foundation/fault.ts';
import { type BuiltWheel, UvFailed } from '../../src/pypi/index.ts';
import type { PythonRequirement } from '../../src/pypi/requirements/requirement.ts';

const docopt: SourceToBuild = {
  ...{ name: 'docopt', version: '0.6.2' },
  source: {
    fileName: 'docopt-0.6.2.tar.gz',
    url: 'https://example.org/docopt-0.6.2.tar.gz',
    sha256: 'a'.repeat(64),
  },
};

/** The parts of a server, where a build takes no time. */
function startWorld(built: (run: WheelRun) => WheelResult = () => wheelOf('docopt', '0.6.2')) {
  const kept = new Map<string, BuiltWheel>();
  const notes = new Map<string, object>();
  const world = {
    runs: [] as WheelRun[],
    baseDigest: 'sha256:base',
    architecture: 'amd64',
    layer: 'sha256:layer',
    setuptools: 'b'.repeat(64),
    packages: [] as object[],
    /** All tags of a repository. The first one leads to the commit that is built. */
    tags: '1',
    isDown: false,
    histories: 0,
    /** Packages of Conda without a layer. */
    unmade: [] as object[],
    before: async () => {},
    solved: async () => {},
    fetch: async (_: { fileName: string }) => ({
      ...{ path: '', size: 1 },
      async [Symbol.asyncDispose]() {},
    }),
  };
  const builds = createWheelBuilds({
    kept: {
      find: async (key: string) => kept.get(key),
      async keep(key: string, facts: BuiltWheel) {
        const wheel = { ...facts, url: `sluice-built:${key}`, sha256: 'c'.repeat(64), size: 1 };
        kept.set(key, wheel);
        return wheel;
      },
      async alias(key: string, wheel: BuiltWheel) {
        const same = { ...wheel, url: `sluice-built:${key}` };
        kept.set(key, same);
        return same;
      },
      notesOf: async (key: string) => notes.get(key),
      note: async (key: string, found: object) => void notes.set(key, found),
    },
    layers: {
      make: async () => ({ layers: [{ tarDigest: world.layer }], packages: [] }),
      missing: async () => ({ packages: world.unmade, wheels: [] }),
    },
    makeImage: async () => ({ root: {}, generated: new Map() }),
    verify: async () => ({}),
    offer: () => ({ name: 'image', [Symbol.dispose]() {} }),
    pythonSolver: {
      async solve({ requirements }: { requirements: readonly PythonRequirement[] }) {
        await world.solved();
        return requirements.map(({ name }) => ({
          ...{ name, version: '1', fileName: `${name}-1-py3-none-any.whl`, url: 'https://x' },
          sha256: name === 'setuptools' ? world.setuptools : hashOf(name),
        }));
      },
    },
    fetchFile: (file: { fileName: string }) => world.fetch(file),
    commits: { check: async () => {} },
    repositories: {
      async tagsOf() {
        if (world.isDown) throw new Fault('upstream', 'it is down', { phase: 'upstream' });
        return { tags: [], label: world.tags };
      },
      async historyOf() {
        world.histories += 1;
        const label = world.tags.slice(0, 1);
        return { pack: undefined, tags: [], label, async [Symbol.asyncDispose]() {} };
      },
      submodulesOf: async () => ({ modules: [], isListed: false }),
    },
    async run(run: WheelRun) {
      world.runs.push(run);
      await Promise.resolve();
      return built(run);
    },
    labelOf: (name: string) => hashOf(name),
  } as unknown as Parameters<typeof createWheelBuilds>[0]);
  const callerOf = (owner: string | undefined) => ({
    ...{ owner: owner ?? '', isTrusted: owner !== undefined, count: { last: 0 } },
    log: { write() {} } as never,
    signal: new AbortController().signal,
    rights: { limits: '', forBuilder: () => ({}) as never },
    beforeBuilder: () => world.before(),
    checkPackages() {},
  });
  const environment = () =>
    ({
      platform: { os: 'linux', architecture: world.architecture },
      ...{ base: { digest: world.baseDigest }, access: { registry: 'r.test', repository: 'base' } },
      ...{ isReplaced: false, packages: world.packages, indexes: [] },
      target: { version: '3.11.2', machine: 'x86_64', glibc: '2.36' },
    }) as unknown as WheelEnvironment;
  return Object.assign(world, {
    build: (owner: string | undefined, source = docopt) =>
      builds.build(callerOf(owner))([source], environment()),
    plan: (owner: string | undefined, source = docopt) =>
      builds.plan(callerOf(owner))([source], environment()),
  });
}

function wheelOf(name: string, version: string): WheelResult {
  return {
    fileName: `${name}-${version}-py3-none-any.whl`,
    metadata: `Name: ${name}\nVersion: ${version}\n`,
    bytes: { abort: async () => {} } as never,
  };
}

const hashOf = (text: string) => createHash('sha256').update(text).digest('hex');

test('a wheel is built once for what its build can read, and for each user', async () => {
  const world = startWorld();
  const [first] = await world.build('ann');
  const [second] = await world.build('ann');
  assert.equal(world.runs.length, 1);
  assert.deepEqual(second, first);
  assert.deepEqual(
    world.runs[0]?.files.map(({ fileName }) => fileName.split('-')[0]),
    ['docopt', 'pip', 'setuptools', 'wheel'],
  );
  let last = 1;
  const isNew = async (what: string, owner: string | undefined, source = docopt) => {
    const [wheel] = await world.build(owner, source);
    last += 1;
    assert.equal(world.runs.length, last, what);
    assert.notEqual(wheel?.url, first?.url, what);
  };
  await isNew('another user', 'ben');
  await isNew('a stranger', undefined);
  const { source } = docopt;
  await isNew('another archive', 'ann', {
    ...docopt,
    source: { ...source, sha256: 'd'.repeat(64) },
  });
  await isNew('another address', 'ann', {
    ...docopt,
    source: { ...source, url: 'https://example.com/docopt-0.6.2.tar.gz' },
  });
  world.setuptools = 'e'.repeat(64);
  await isNew('another wheel that the build requires', 'ann');
  world.layer = 'sha256:other';
  await isNew('another package of Conda', 'ann');
  world.baseDigest = 'sha256:other';
  await isNew('another base image', 'ann');
});

test('a wheel for any platform serves platforms that no builder runs, for its user alone', async () => {
  let fileName = 'docopt-0.6.2-py3-none-any.whl';
  const world = startWorld(({ platform }) => {
    if (platform === 'linux/amd64') return { ...wheelOf('docopt', '0.6.2'), fileName };
    const lastLogLines = ['exec /opt/conda/bin/python3.11: exec format error'];
    const cause = new BuildError('exec', 'it failed', { lastLogLines });
    throw new Fault('bad-request', 'exec format error', { phase: 'build', cause });
  });
  const on = (architecture: string, owner: string) => {
    Object.assign(world, {
      architecture,
      baseDigest: `sha256:${architecture}`,
      layer: architecture,
    });
    return world.build(owner);
  };
  await assert.rejects(on('arm64', 'ann'), /exec format error/);
  const [first] = await on('amd64', 'ann');
  const [second] = await on('arm64', 'ann');
  assert.equal(second?.sha256, first?.sha256);
  const runs = world.runs.length;
  assert.deepEqual(await on('arm64', 'ann'), [second]);
  assert.equal(world.runs.length, runs, 'it is known by then');
  await assert.rejects(on('arm64', 'ben'), /exec format error/);
  fileName = 'docopt-0.6.2-cp311-cp311-linux_x86_64.whl';
  await on('amd64', 'ben');
  await assert.rejects(on('arm64', 'ben'), /exec format error/);
});

test('a wheel for any platform is not shared between builds that saw other files of the same versions', async () => {
  const python = {
    ...{ name: 'python', version: '3.11.2', sha256: '1'.repeat(64) },
    url: 'https://conda.test/main/linux-64/python-3.11.2-0.conda',
  };
  const pure = {
    ...{ name: 'tomli', version: '2', sha256: '2'.repeat(64) },
    url: 'https://conda.test/main/noarch/tomli-2-0.conda',
  };
  const world = startWorld(({ platform }) => {
    if (platform === 'linux/amd64') return wheelOf('docopt', '0.6.2');
    const lastLogLines = ['exec /opt/conda/bin/python3.11: exec format error'];
    const cause = new BuildError('exec', 'it failed', { lastLogLines });
    throw new Fault('bad-request', 'exec format error', { phase: 'build', cause });
  });
  const on = (architecture: string, given: object = {}) => {
    const usual = { setuptools: 'b'.repeat(64), packages: [python, pure] };
    Object.assign(world, { architecture, ...usual, ...given });
    world.layer = JSON.stringify(world.packages);
    return world.build(undefined);
  };
  const ofArm = { ...python, sha256: '3'.repeat(64), url: python.url.replace('-64', '-aarch64') };
  const refused = () =>
    assert.rejects(on('arm64', { packages: [ofArm, pure] }), /exec format error/);
  await on('amd64', { setuptools: 'f'.repeat(64) });
  await refused();
  const elsewhere = { ...python, url: python.url.replace('/main/', '/other/') };
  await on('amd64', { packages: [elsewhere, pure] });
  await refused();
  await on('amd64', { packages: [python, { ...pure, sha256: 'f'.repeat(64) }] });
  await refused();
  await on('amd64', { packages: [{ ...python, url: 'https://conda.test/python.conda' }, pure] });
  await refused();
  await on('amd64');
  assert.equal((await on('arm64', { packages: [ofArm, pure] })).length, 1);
});

test('images that begin together share a build', async () => {
  const world = startWorld();
  const all = await Promise.all([world.build('ann'), world.build('ann'), world.build('ann')]);
  assert.equal(world.runs.length, 1);
  assert.equal(new Set(all.map(([wheel]) => wheel?.url)).size, 1);
});

test('a build begins again with what it has missed, and not for ever', async () => {
  const world = startWorld(({ files }) =>
    files.some(({ fileName }) => fileName.startsWith('cython'))
      ? wheelOf('docopt', '0.6.2')
      : { missing: ['Cython>=3', 'setuptools'] },
  );
  await world.build('ann');
  assert.equal(world.runs.length, 2);
  await world.build('ann');
  assert.equal(world.runs.length, 2);

  // Another image, which has looked before the first one has shown what is missing, misses nothing again.
  const both = startWorld(({ files }) =>
    files.some(({ fileName }) => fileName.startsWith('cython'))
      ? wheelOf('docopt', '0.6.2')
      : { missing: ['Cython>=3'] },
  );
  await Promise.all([both.build('ann'), both.build('ann')]);
  assert.equal(both.runs.length, 2);

  const never = startWorld(() => ({ missing: ['setuptools'] }));
  await assert.rejects(
    never.build('ann'),
    /requires packages that it cannot have: "setuptools"\. Ask for a version with a wheel$/,
  );
  assert.equal(never.runs.length, 1);
  let count = 0;
  const endless = startWorld(() => ({ missing: [`more${count++}`] }));
  await assert.rejects(endless.build('ann'), /requires packages that it cannot have/);
  assert.equal(endless.runs.length, 5);
  for (const line of ['/etc', '--find-links /etc', 'six @ file:///etc', 'git+https://x/y']) {
    const harmful = startWorld(() => ({ missing: [line] }));
    await assert.rejects(harmful.build('ann'), /which is not the name of a project/, line);
    assert.equal(harmful.runs.length, 1);
  }
});

test('a plan has the wheels that exist, and builds none', async () => {
  const world = startWorld();
  const planned = async () => (await world.plan('ann')).map(mustBuild);
  assert.deepEqual(await planned(), [true]);
  await world.build('ann');
  assert.deepEqual(await planned(), [false]);
  assert.deepEqual((await world.plan('ben')).map(mustBuild), [true]);
  world.unmade = [{}];
  assert.deepEqual(await planned(), [true]);
  assert.equal(world.runs.length, 1);
});

test('nothing runs where no builder may be used, and a wheel that is here needs none', async () => {
  const world = startWorld();
  world.before = async () => {
    throw new Error('no builder');
  };
  await assert.rejects(world.build('ann'), /no builder/);
  assert.equal(world.runs.length, 0);
  world.before = async () => {};
  await world.build('ann');
  world.before = async () => {
    throw new Error('no builder');
  };
  await world.build('ann');
  assert.equal(world.runs.length, 1);
});

test('a file that arrives after another one has failed is let go', async () => {
  const world = startWorld();
  const { promise: arrival, resolve: arrive } = Promise.withResolvers<void>();
  const { promise: end, resolve: letGo } = Promise.withResolvers<void>();
  world.fetch = async ({ fileName }) => {
    if (fileName.endsWith('.tar.gz')) throw new Error('the index ended');
    await arrival;
    return { path: '', size: 1, [Symbol.asyncDispose]: async () => letGo() };
  };
  await assert.rejects(world.build('ann'), /the index ended/);
  arrive();
  await end;
});

test('requirements of a build that uv does not handle, or that no index has, are faults of the request', async () => {
  const world = startWorld();
  world.solved = async () => {
    throw new UvFailed('a package that another one requires by its address', 'words');
  };
  await assert.rejects(world.build('ann'), { kind: 'bad-request' });
  const hostile = startWorld(() => ({ missing: [`no\u001b[2Jname\n${'x'.repeat(400)}`] }));
  await assert.rejects(hostile.build('ann'), ({ message }: Error) => {
    assert.ok(!/\n/.test(message) && !message.includes('\u001b'), message);
    return message.length < 1000;
  });
});

test('a commit is built once for its repository and folder, and has the name that its wheel has', async () => {
  const world = startWorld();
  const commit = { url: 'https://h.test/d.git', id: '1'.repeat(40) };
  const [first] = await world.build('ann', { name: undefined, commit });
  const [again] = await world.build('ann', { name: 'docopt', commit });
  assert.deepEqual(again, first);
  assert.equal(world.runs.length, 1);
  assert.deepEqual(
    world.runs[0]?.files.map(({ fileName }) => fileName.split('-')[0]),
    [...['pip', 'setuptools', 'wheel']],
  );
  assert.deepEqual(first?.directUrl, {
    url: commit.url,
    vcs_info: { vcs: 'git', commit_id: commit.id },
  });
  assert.equal(`${first?.name} ${first?.version}`, 'docopt 0.6.2');
  const message = /The build of other at 1{12} has made a wheel of docopt: write that name/;
  await assert.rejects(world.build('ann', { name: 'other', commit }), message);
  await assert.rejects(world.build('ben', { name: 'other', commit }), message);
  const runs = world.runs.length;
  for (const other of [
    { ...commit, id: '2'.repeat(40) },
    { ...commit, subdirectory: 'py' },
    { ...commit, url: 'https://h.test/e.git' },
  ]) {
    const [planned] = await world.plan('ann', { name: undefined, commit: other });
    assert.equal(planned && mustBuild(planned), true);
    const [built] = await world.build('ann', { name: undefined, commit: other });
    assert.equal(built && mustBuild(built), false);
    assert.notEqual(built?.url, first?.url);
  }
  assert.equal(world.runs.length, runs + 3);
});

test('a commit is built again for a tag in its history, and not for another one', async () => {
  const world = startWorld();
  const commit = { url: 'https://h.test/a', id: '1'.repeat(40) };
  const build = () => world.build('ann', { name: 'docopt', commit });
  const [first] = await build();
  assert.deepEqual([world.runs.length, world.histories], [1, 1]);
  assert.deepEqual(await build(), [first]);
  assert.deepEqual([world.runs.length, world.histories], [1, 1]);
  // A tag elsewhere: its history is read once.
  world.tags = '1 elsewhere';
  assert.deepEqual(await build(), [first]);
  assert.deepEqual(await build(), [first]);
  assert.deepEqual([world.runs.length, world.histories], [1, 2]);
  world.isDown = true;
  assert.deepEqual(await build(), [first]);
  world.isDown = false;
  world.tags = '2';
  await build();
  assert.equal(world.runs.length, 2);
  await build();
  assert.equal(world.runs.length, 2);
});
