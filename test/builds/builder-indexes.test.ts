/** Indexes of Python packages in images that a builder makes: a private one must not be replaced by the public one. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type RecipeOrigin, recipeIn } from '../../src/builds/plan/build-plan.ts';
import { planBuild } from '../../src/builds/plan/plan.ts';
import type { CondaSource } from '../../src/builds/recipe/conda/conda-source.ts';
import { foundRecipe, refuseBuilder } from '../../src/builds/solve/conda/builder-required.ts';
import { createBuilderIndexes } from '../../src/pypi/index.ts';
import { configuredIndexes } from '../../src/server/config/read/registries.ts';
import { configSchema } from '../../src/server/config/settings-schema.ts';

const publicIndex = 'https://pypi.org/simple';
const moved = { [publicIndex]: { url: 'https://pypi.test/team/simple' } };
const closed = { [publicIndex]: { url: 'https://pypi.test/team/simple', token: 'sesame-1' } };

const reachOf = (pypi: object) => ({
  reached: (written: string) => [written],
  isClosed: () => false,
  indexes: createBuilderIndexes(configuredIndexes(configSchema.parse({ pypi }))),
});

function planned(pypi: object, text: string) {
  const places = { repository: 'registry.test/builds', cache: undefined, frozen: {} };
  const environment = Buffer.from(text).toString('base64');
  const plan = planBuild(
    { packages: { type: 'CONDA', environment } },
    { ...places, condaChannels: reachOf(pypi) },
  );
  return recipeIn(plan)?.dockerfile ?? '';
}

const environment = 'dependencies: [python, pip: [six]]\n';
const address = 'https://conda.test/c/linux-64/a-1-0.conda';
const lock = (...lines: string[]) => ['@EXPLICIT', address, ...lines, ''].join('\n');
const sha256 = 'a'.repeat(64);
const wheel = (host: string) =>
  `six @ https://${host}/six-1.17.0-py3-none-any.whl#sha256=${sha256}`;

test('pip in a builder looks names up where the configuration says', () => {
  assert.doesNotMatch(planned({}, environment), /PIP_/);
  for (const text of [environment, lock('# pip six==1.17.0')]) {
    assert.match(planned(moved, text), /^ENV PIP_INDEX_URL=https:\/\/pypi\.test\/team\/simple\/$/m);
  }
});

test('names of an index with credentials are refused where a builder is required, and never looked up at the public one', () => {
  const lines = [environment, lock('# pip six==1.17.0'), 'dependencies: [pip: [--pre, six]]\n'];
  for (const text of lines) {
    assert.throws(() => planned(closed, text), {
      kind: 'bad-request',
      message:
        /^The index of Python packages has credentials in the configuration, which a builder does not get, and a builder is required for the 'pip' packages: leave out/,
    });
  }
  const files = lock(`# pip ${wheel('pypi.test/team/files')}`);
  assert.throws(() => planned(closed, files), /^Fault: The index of Python packages has cred/);
  const elsewhere = planned(closed, lock(`# pip ${wheel('files.test')}`));
  assert.match(elsewhere, /^ENV PIP_NO_INDEX=1$/m);
  assert.doesNotMatch(elsewhere, /sesame|pypi\.test/);
});

test('pip itself is added where it has packages to install', () => {
  assert.match(
    planned({}, lock(`# pip ${wheel('files.test')}`)),
    /python -m pip --version > \/dev\/null 2>&1 \|\| \/bin\/sh \/sluice\/solve\.sh --freeze-installed .* pip; \\\n .*python -m pip install /,
  );
});

const source: CondaSource = {
  kind: 'conda',
  wanted: { form: 'environment', packages: ['python'], pip: ['six'], variables: [] },
  channels: ['conda-forge'],
  options: { mambaImage: 'mamba', baseImage: 'base', basePackages: [], commands: [] },
};
const solution = (host: string) => [
  {
    subdir: 'linux-64',
    packages: [],
    wheels: [
      {
        name: 'six',
        version: '1.17.0',
        fileName: 'six-1.17.0-py3-none-any.whl',
        url: `https://${host}/six-1.17.0-py3-none-any.whl`,
        sha256,
      },
    ],
  },
];

test('a builder gets the wheels that were found by their addresses and digests', () => {
  const recipe = { files: {} } as RecipeOrigin;
  const found = solution('files.test');
  const { files, dockerfile } = foundRecipe(recipe, source, found, reachOf(moved));
  assert.match(files['conda.lock'] ?? '', new RegExp(`^# pip ${wheel('files.test')}$`, 'm'));
  assert.match(dockerfile, /^ENV PIP_INDEX_URL=/m);
});

test('wheels of an index with credentials are refused where a builder installs what was found', () => {
  const reasons = ['the link script of a'];
  const rules = { condaChannels: reachOf(closed) };
  const refusal = /credentials .* required for the link script of a: leave out the 'pip' packages/;
  assert.throws(() => refuseBuilder(rules, source, reasons, solution('pypi.test/team/f')), refusal);
  refuseBuilder(rules, source, reasons, solution('files.test'));
});
