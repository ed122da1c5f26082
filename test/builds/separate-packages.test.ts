import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isNative } from '../../src/builds/plan/build-plan.ts';
import { planBuild } from '../../src/builds/plan/plan.ts';
import { readEntries } from '../../src/builds/recipe/conda/conda-environment.ts';
import { separatePackages } from '../../src/builds/recipe/conda/package-spec.ts';
import { buildCases } from '../golden/build-cases.ts';

// Source: existing clients, which send the text of a whole directive as one entry.
const several: Readonly<Record<string, readonly string[]>> = {
  'a=1 b=2': ['a=1', 'b=2'],
  'samtools=1.20 bamtools=2.5.2  bwa>=0.7': ['samtools=1.20', 'bamtools=2.5.2', 'bwa>=0.7'],
  'samtools bioconda::bwa': ['samtools', 'bioconda::bwa'],
  'bioconda::samtools=1.20 conda-forge::python': ['bioconda::samtools=1.20', 'conda-forge::python'],
  'python=3.12\tpip:numpy==2.1': ['python=3.12', 'pip:numpy==2.1'],
};
const single: readonly string[] = [
  ...['samtools', 'samtools 1.20', 'samtools >=1.19', 'samtools >=1.19,<2', 'samtools >=1.19, <2'],
  ...['samtools=1.20 py39_0', 'python 3.9.* *_cpython', 'openssl 1.1.1*', 'numpy 1.11.1|1.11.3'],
  ...["tool[version='>=1.2, <2']", "tool[build='a b=1']", 'pip:numpy >=1', 'a = 1', 'a == 1'],
];

test('an entry with several packages is several packages', () => {
  for (const [entry, packages] of Object.entries(several)) {
    assert.deepEqual(separatePackages(entry), packages, entry);
  }
});

test('one package with blanks in it stays one package', () => {
  for (const entry of single) assert.deepEqual(separatePackages(entry), [entry], entry);
  for (const { packages } of Object.values(buildCases)) {
    for (const entry of packages?.entries ?? []) assert.equal(separatePackages(entry).length, 1);
  }
});

const places = { repository: 'registry.test/builds', cache: undefined, frozen: {} };
const wantedOf = (entries: readonly string[]) => readEntries('entries', entries).packages;
const planOf = (entries: readonly string[], condaOpts = {}) =>
  planBuild({ packages: { type: 'CONDA', entries, channels: ['team'], condaOpts } }, places);

test('one entry with two packages has the key of two entries', () => {
  assert.equal(planOf(['a=1 b=2']).key, planOf(['b=2', 'a=1']).key);
});

// Source: conda, MatchSpec: a build between ^ and $ is a regular expression.
test('a build may be a regular expression', () => {
  const entry = "tool[build='^py311.*$']";
  assert.deepEqual(wantedOf([entry]), [entry]);
});

test('the image with the package manager that clients send by default requires no builder', () => {
  const usual = planOf(['a']);
  for (const mambaImage of [
    'mambaorg/micromamba:2-amazon2023',
    'docker.io/mambaorg/micromamba:1.5.10-noble',
  ]) {
    const plan = planOf(['a'], { mambaImage });
    assert.equal(isNative(plan), true, mambaImage);
    assert.equal(plan.key, usual.key);
  }
  assert.equal(isNative(planOf(['a'], { mambaImage: 'mambaorg/micromamba:1.4' })), false);
});
