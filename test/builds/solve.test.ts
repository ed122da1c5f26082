import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { RecipeOrigin } from '../../src/builds/plan/build-plan.ts';
import { planBuild } from '../../src/builds/plan/plan.ts';
import type { CondaMaker } from '../../src/builds/recipe/conda/conda-source.ts';
import {
  BuilderRequired,
  type SolvedPlatform,
} from '../../src/builds/solve/conda/builder-required.ts';
import { createDatedLayers } from '../../src/builds/solve/dating/dated-layers.ts';
import type { RecipeRun } from '../../src/builds/solve/run-recipe.ts';
import { createSolve, type SolveDeps } from '../../src/builds/solve/solve.ts';
import {
  type BuilderChannels,
  createBuilderChannels,
} from '../../src/conda/channels/channel-settings.ts';
import type { CondaPackage } from '../../src/conda/conda-package.ts';
import { Fault } from '../../src/foundation/fault.ts';

const unused = () => assert.fail('it was called');
const noAccess = {
  credentials: async () => undefined,
  tokens: { covers: async () => false, fetch: unused },
};

const unusedDeps: SolveDeps = {
  datedLayers: createDatedLayers({ claim: async () => false }),
  runRecipe: unused,
  staging: {
    host: 'sluice.test',
    repositoryOf: id => ({ registry: 'sluice.test', repository: `builds/staging/${id}` }),
    drop: async () => {},
  },
  rightsOf: () => ({ forBuilder: () => noAccess, access: unused, limits: '' }),
  documents: {} as SolveDeps['documents'],
  content: {} as SolveDeps['content'],
  ...{
    makeCondaImage: unused,
    compressBase: unused,
    makeImage: unused,
    publish: unused,
    mirror: unused,
    makeSif: unused,
  },
  ...{ attach: unused, redate: unused, stageSifBases: unused },
  requireBuilder: async () => {},
  isClosed: () => false,
  serviceCache: undefined,
  prepareBases: async () => ({ images: {}, layers: [], blobs: new Map(), [Symbol.dispose]() {} }),
};

const noSteps = {
  lastSteps: () => [],
  restartSteps() {},
  conclude() {},
  step() {},
  layers() {},
};

test('a builder of strangers gets no layer cache of a caller where its registry may have a closed address', async () => {
  const runOf = async (isTrusted: boolean, cache: string) => {
    const runs: RecipeRun[] = [];
    let log = '';
    const solve = createSolve({
      ...unusedDeps,
      isClosed: host => host !== 'open.test',
      serviceCache: 'closed.test/cache',
      async runRecipe(given) {
        runs.push(given);
        throw new Error('enough');
      },
    });
    const run = solve({
      ...{ id: 'key_1', owner: 'nobody', isTrusted, grant: undefined },
      plan: {
        ...{ key: 'key', target: 'closed.test/image:key', change: {} },
        origin: {
          ...{ kind: 'recipe', recipe: 'dockerfile', dockerfile: 'FROM scratch\n', files: {} },
          ...{ lockStage: undefined, cache, platforms: ['linux/amd64'], baseImages: [] },
        },
      },
      signal: new AbortController().signal,
      log: {
        ...noSteps,
        write(text) {
          log += text;
        },
        async written() {},
        async share() {},
        settle() {},
        async end() {},
      },
    });
    await assert.rejects(run, /enough/);
    const [{ recipe } = assert.fail()] = runs;
    return [recipe.cache, /layer cache .* not used/.test(log)];
  };
  const far = 'closed.test/of-caller';
  assert.deepEqual(await runOf(true, far), [far, false]);
  assert.deepEqual(await runOf(false, far), [undefined, true]);
  for (const cache of ['closed.test/cache', 'sluice.test/of-caller', 'open.test/of-caller']) {
    assert.deepEqual(await runOf(false, cache), [cache, false]);
  }
});

test('the converted bases of a build are removed, however it ends', async () => {
  const dropped: string[] = [];
  const solve = createSolve({
    ...unusedDeps,
    runRecipe: async () => {
      throw new Error('the builder is gone');
    },
    staging: { ...unusedDeps.staging, drop: async id => void dropped.push(id) },
    stageSifBases: async (_run, _rights, recipe) => recipe,
  });
  const run = (isStaged: boolean) =>
    solve({
      id: 'key_1',
      plan: {
        ...{ key: 'key', target: 'registry.test/image:key', change: {} },
        origin: {
          kind: 'recipe',
          recipe: 'dockerfile',
          ...{ dockerfile: 'FROM scratch\n', files: {}, lockStage: undefined, cache: undefined },
          ...{ platforms: ['linux/amd64'], baseImages: [] },
          ...(isStaged ? { sifBases: { base: 'registry.test/base.sif:1' } } : {}),
        },
      },
      grant: undefined,
      owner: 'nobody',
      isTrusted: false,
      log: {
        ...noSteps,
        write() {},
        async written() {},
        async share() {},
        settle() {},
        async end() {},
      },
      signal: new AbortController().signal,
    });
  await assert.rejects(run(true), /the builder is gone/);
  assert.deepEqual(dropped, ['key_1']);
  await assert.rejects(run(false), /the builder is gone/);
  assert.deepEqual(dropped, ['key_1']);
});

/** Runs the build of a package with a link script, on a server whose builder is gone. */
function runLinked(
  conda?: CondaMaker,
  condaChannels?: BuilderChannels,
  solution?: readonly SolvedPlatform[],
) {
  let log = '';
  const built: RecipeOrigin[] = [];
  const solve = createSolve({
    ...{ ...unusedDeps, conda, condaChannels },
    makeCondaImage: async () => {
      throw new BuilderRequired(['the link script of fonts'], solution);
    },
    runRecipe: async ({ recipe }) => {
      built.push(recipe);
      throw new Fault('not-provided', 'This server has no builder', { phase: 'build' });
    },
  });
  const environment = Buffer.from('dependencies: [fonts]\nvariables: {TOOL: 1}\n').toString(
    'base64',
  );
  const packages = { type: 'CONDA', environment, condaOpts: { baseImage: 'debian:12' } };
  const places = { repository: 'registry.test/builds', cache: undefined, frozen: {} };
  const run = solve({
    ...{ id: 'key_1', plan: planBuild({ packages }, places), grant: undefined },
    ...{ owner: 'nobody', isTrusted: false, signal: new AbortController().signal },
    log: {
      write(text) {
        log += text;
      },
      async written() {},
      async share() {},
      settle() {},
      async end() {},
      ...noSteps,
    },
  });
  return { run, built, log: () => log };
}

test('a package with a link script is built by BuildKit, and the log names it', async () => {
  const { run, built, log } = runLinked();
  await assert.rejects(run, {
    kind: 'not-provided',
    message: 'The link script of fonts requires a builder. This server has no builder',
  });
  assert.equal(log(), 'The link script of fonts requires a builder: BuildKit makes the image.\n');
  const { baseImages = [] } = built[0] ?? {};
  assert.deepEqual([...baseImages].sort(), [
    'docker.io/library/debian:12',
    'docker.io/mambaorg/micromamba:1.5.10-noble',
  ]);
});

test('BuildKit installs the packages that were found, dependencies first, and does not solve again', async () => {
  const found = (subdir: string, name: string, depends: string[], sums: object): CondaPackage => {
    const fileName = `${name}-1-0.conda`;
    const url = `https://conda.test/${subdir}/${fileName}`;
    const it = { name, version: '1', build: '0', buildNumber: 0, subdir, fileName, url, depends };
    return { ...it, ...sums, record: {} };
  };
  const [md5, sha256] = ['a'.repeat(32), 'b'.repeat(64)];
  const platform = (subdir: string): SolvedPlatform => ({
    subdir,
    packages: [
      found(subdir, 'fonts', ['zlib'], { md5, sha256 }),
      found(subdir, 'zlib', [], { sha256 }),
    ],
  });
  const linesFor = (subdir: string) =>
    [
      '@EXPLICIT',
      `https://conda.test/${subdir}/zlib-1-0.conda#sha256:${sha256}`,
      `https://conda.test/${subdir}/fonts-1-0.conda#${md5}`,
      '',
    ].join('\n');
  const both = ['linux-64', 'linux-aarch64'];
  for (const [subdirs, files] of [
    [['linux-64'], { 'conda.lock': linesFor('linux-64') }],
    [
      both.toReversed(),
      {
        'conda-amd64.lock': linesFor('linux-64'),
        'conda-arm64.lock': linesFor('linux-aarch64'),
      },
    ],
  ] as const) {
    const { run, built } = runLinked('auto', undefined, subdirs.map(platform));
    await assert.rejects(run, { kind: 'not-provided' });
    const [recipe] = built;
    assert.deepEqual(recipe?.files, files);
    assert.doesNotMatch(recipe?.dockerfile ?? '', /solve|procps/);
    assert.match(recipe?.dockerfile ?? '', /^ENV TOOL=1$/m);
    assert.match(recipe?.dockerfile ?? '', /^FROM docker\.io\/library\/debian:12 AS final$/m);
  }
});

test('a package with a link script is rejected where the operator wants no builder for packages', async () => {
  const { run, built, log } = runLinked('native');
  await assert.rejects(run, {
    kind: 'bad-request',
    message: /^The link script of fonts requires a builder, and this server makes images/,
  });
  assert.deepEqual([built, log()], [[], '']);
});

test('a package with a link script is rejected where a builder cannot read its channel', async () => {
  const { run, built, log } = runLinked(
    'auto',
    createBuilderChannels([
      {
        ...{ keys: ['conda-forge'], url: 'https://conda.test/x', mirrors: [] },
        ...{ allowPrivateAddress: false, credentials: { kind: 'token', token: 'tk-1' } },
      },
    ]),
  );
  await assert.rejects(run, {
    kind: 'bad-request',
    message:
      /^The channel 'conda-forge' has credentials .* a builder is required for the link script of fonts: /,
  });
  assert.deepEqual([built, log()], [[], '']);
});
