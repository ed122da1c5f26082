import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  isExportedList,
  readEnvironmentFile,
  readExportedList,
} from '../../src/builds/recipe/conda/conda-environment.ts';
import { readPackage } from '../../src/builds/recipe/conda/package-spec.ts';
import { Fault } from '../../src/foundation/fault.ts';

test('a namespace before a package is ignored, as conda ignores it', () => {
  assert.equal(readPackage('x', 'conda-forge:pip=23.3.1'), 'pip=23.3.1');
  assert.equal(readPackage('x', 'conda-forge:blas=1.0=mkl'), 'blas=1.0=mkl');
  assert.equal(readPackage('x', 'conda-forge::pip=23.3.1'), 'conda-forge::pip=23.3.1');
  assert.equal(readPackage('x', 'conda-forge:any:pip=23.3.1'), 'conda-forge::pip=23.3.1');
  assert.throws(() => readPackage('x', 'pip:numpy'), Fault);
});

test('an environment file merges mappings, with the channels in them', () => {
  const text = `
base: &base
  channels: [bioconda]
  dependencies: [bwa]
<<: *base
`;
  const { channels, environment } = readEnvironmentFile('file', text);
  assert.deepEqual(channels, ['bioconda']);
  assert.deepEqual(environment.packages, ['bwa']);
  const many = `${text}more: [${Array(9).fill('{<<: *base}').join(', ')}]`;
  assert.throws(() => readEnvironmentFile('file', many), /more than 8 mappings are merged/);
});

test('a list for pip without items is none, as conda reads it', () => {
  const text = 'dependencies:\n  - python=3.12\n  - pip\n  - pip:\n';
  const { packages, pip } = readEnvironmentFile('file', text).environment;
  assert.deepEqual({ packages, pip }, { packages: ['pip', 'python=3.12'], pip: [] });
});

test('an environment file selects packages for Linux', () => {
  const text = `
dependencies:
  - sel(linux): patchelf
  - sel(unix): bwa =1
  - sel(win): m2-patch
  - sel(osx): clang
`;
  assert.deepEqual(readEnvironmentFile('file', text).environment.packages, ['bwa =1', 'patchelf']);
  const other = 'dependencies: [{"sel(beos)": bwa}]';
  assert.throws(() => readEnvironmentFile('file', other), /is a mapping \(sel\(beos\)\)/);
});

test('a list of conda list --export is read, with what pip installed', () => {
  const text = `# This file may be used to create an environment using:
# $ conda create --name <env> --file <this file>
# platform: linux-64
bwa=0.7.18=he4a0461_0
multiqc=1.25=pypi_0
zlib=1.3.1=hb9d3cd8_2
`;
  assert.ok(isExportedList(text));
  assert.ok(!isExportedList('dependencies:\n- bwa\n'));
  assert.ok(!isExportedList('# nothing\n'));
  const { packages, pip } = readExportedList('file', text);
  assert.deepEqual(packages, ['bwa=0.7.18=he4a0461_0', 'zlib=1.3.1=hb9d3cd8_2']);
  assert.deepEqual(pip, ['multiqc==1.25']);
});

test('an extra as pip writes it is ignored behind a conda package, as by conda', () => {
  const cases = {
    'black[jupyter]': 'black',
    'markdown-it-py[plugins, b]~=1.0': 'markdown-it-py~=1.0',
    'conda-forge::uvicorn[standard] >=0.20': 'conda-forge::uvicorn >=0.20',
    'conda-forge[linux-64]::bwa': 'conda-forge[linux-64]::bwa',
    'tool[build=py311*]': 'tool[build=py311*]',
  };
  for (const [spec, read] of Object.entries(cases)) assert.equal(readPackage('x', spec), read);
});

test('extras of a conda package are refused with the reason', () => {
  for (const spec of ['foo[extras=[gui]]', 'foo[version=1,extras = [gui]]']) {
    assert.throws(() => readPackage('x', spec), /asks for extras of a conda package/);
  }
});
