/** What makes an image of Conda packages: Sluice itself, or BuildKit. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isNative, needsBuilder, recipeIn } from '../../src/builds/plan/build-plan.ts';
import { type BuildPlaces, type PlanRequest, planBuild } from '../../src/builds/plan/plan.ts';
import type { CondaMaker } from '../../src/builds/recipe/conda/conda-source.ts';

const base64 = (text: string) => Buffer.from(text).toString('base64');
const repository = 'registry.example.com/builds';

function plan(request: PlanRequest, conda?: CondaMaker) {
  const places: BuildPlaces = { repository, cache: undefined, frozen: {} };
  return planBuild(request, conda === undefined ? places : { ...places, conda });
}

function packages(more: object = {}): PlanRequest {
  return { packages: { type: 'CONDA', entries: ['samtools=1.20'], ...more } };
}

test('a list of packages, an environment file and lock files are made without a builder', () => {
  const lock = '@EXPLICIT\nhttps://conda.example.com/c/linux-64/a-1-0.conda\n';
  const requests: readonly PlanRequest[] = [
    packages(),
    packages({ entries: undefined, environment: base64('dependencies: [bwa]\n') }),
    packages({ entries: undefined, environment: base64(lock) }),
    packages({ entries: ['https://example.com/conda.lock'] }),
    { condaFile: base64('dependencies: [bwa]\n') },
    packages({ condaOpts: { mambaImage: 'mambaorg/micromamba:1.5.10-noble' } }),
  ];
  for (const request of requests) {
    const made = plan(request);
    assert.ok(isNative(made) && !needsBuilder(made));
    assert.deepEqual(recipeIn(made)?.baseImages, ['docker.io/library/ubuntu:24.04']);
  }
});

test('what only a builder can do is named, and has the key of the recipe for BuildKit', () => {
  const cases: readonly (readonly [request: PlanRequest, reason: string])[] = [
    [packages({ condaOpts: { commands: ['true'] } }), "'condaOpts.commands'"],
    [
      packages({ condaOpts: { mambaImage: 'mambaorg/micromamba:2' } }),
      "'condaOpts.mambaImage' docker.io/mambaorg/micromamba:2",
    ],
    [
      packages({
        entries: undefined,
        environment: base64('dependencies: [python, pip: [rich]]\n'),
      }),
      "the 'pip' packages",
    ],
    [packages({ channels: ['file:///channel'] }), "a channel of a 'file' or 'oci' URL"],
    [{ ...packages(), labels: { a: 'b' } }, "'labels'"],
    [{ ...packages(), annotations: { a: 'b' } }, "'annotations'"],
    [{ ...packages(), created: '2026-01-31T12:00:00Z' }, "'created'"],
    [
      { ...packages(), buildCompression: { mode: 'zstd', level: 13 } },
      "'buildCompression.level' 13 (of zstd, more than 12)",
    ],
  ];
  for (const [request, reason] of cases) {
    const made = plan(request);
    assert.ok(needsBuilder(made));
    assert.deepEqual(recipeIn(made)?.builderReasons, [reason]);
    assert.equal(made.key, plan(request, 'buildkit').key);
    assert.throws(() => plan(request, 'native'), { kind: 'bad-request', message: /requires one/ });
  }
});

test('layers of packages are compressed as requested, and those by default have the key that they always had', () => {
  const plain = plan(packages());
  const asked = (
    buildCompression: NonNullable<PlanRequest['buildCompression']>,
    more: object = {},
  ) => plan({ ...packages(), buildCompression, ...more });
  for (const usual of [{}, { mode: 'gzip' }, { level: 5 }]) {
    const made = asked(usual);
    assert.equal(made.key, plain.key);
    assert.equal(recipeIn(made)?.layers, undefined);
  }
  const forms = [
    { mode: 'estargz', force: true },
    { mode: 'estargz', level: 9, force: true },
    { mode: 'gzip', force: true },
    { mode: 'gzip', level: 9, force: true },
    { mode: 'gzip', level: 9 },
    { mode: 'zstd' },
    { mode: 'zstd', level: 12, force: true },
  ] as const;
  const keys = new Set([plain.key]);
  for (const form of forms) {
    const made = asked(form);
    assert.ok(isNative(made));
    assert.deepEqual(recipeIn(made)?.layers, form);
    keys.add(made.key);
  }
  assert.equal(keys.size, forms.length + 1);
  // The base image of an eStargz image has the form, too, unless the request says no.
  assert.equal(asked({ mode: 'estargz' }).key, asked({ mode: 'estargz', force: true }).key);
  const onBase = asked({ mode: 'estargz', force: false });
  assert.deepEqual(recipeIn(onBase)?.layers, { mode: 'estargz' });
  assert.ok(!keys.has(onBase.key));
  // The file system of a Singularity image is compressed, and not its layers.
  const sif = { format: 'sif' } as const;
  assert.ok(isNative(asked({ mode: 'zstd' }, sif)));
  assert.equal(recipeIn(asked({ mode: 'estargz' }, sif))?.layers, undefined);
});

test('packages of pip need no builder where uv is, unless only pip itself can handle them', () => {
  const withUv = (pip: string) =>
    planBuild(
      packages({ entries: undefined, environment: base64(`dependencies: [pip: [${pip}]]\n`) }),
      { repository, cache: undefined, frozen: {}, solvesPython: () => true },
    );
  const made = withUv('rich==13.9.4, six>=1');
  assert.ok(isNative(made));
  assert.notEqual(made.key, withUv('rich==13.9.3').key);
  const elsewhere = withUv('rich==13.9.4, --extra-index-url=https://example.org/simple');
  assert.ok(isNative(elsewhere));
  assert.notEqual(elsewhere.key, withUv('rich==13.9.4').key);
  assert.ok(isNative(withUv('rich, --pre')));
  const other = withUv('rich, --no-index');
  assert.deepEqual(recipeIn(other)?.builderReasons, ['the pip option --no-index']);
});

test('the operator can have BuildKit make every image, which then has another key', () => {
  const own = plan(packages());
  const byBuilder = plan(packages(), 'buildkit');
  assert.ok(needsBuilder(byBuilder));
  assert.equal(recipeIn(byBuilder)?.builderReasons, undefined);
  assert.notEqual(byBuilder.key, own.key);
  assert.equal(plan(packages(), 'native').key, own.key);
});

test('the base image and the base packages are part of the key without a builder, too', () => {
  const keys = [
    {},
    { condaOpts: { baseImage: 'debian:12' } },
    { condaOpts: { basePackages: '' } },
    { channels: ['bioconda'] },
  ].map(more => plan(packages(more)).key);
  assert.equal(new Set(keys).size, keys.length);
});
