import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readEnvironmentFile } from '../../src/builds/recipe/conda/conda-environment.ts';
import { readPackage } from '../../src/builds/recipe/conda/package-spec.ts';
import { Fault } from '../../src/foundation/fault.ts';

test('a namespace before a package is ignored, as conda ignores it', () => {
  assert.equal(readPackage('x', 'conda-forge:pip=23.3.1'), 'pip=23.3.1');
  assert.equal(readPackage('x', 'conda-forge:blas=1.0=mkl'), 'blas=1.0=mkl');
  assert.equal(readPackage('x', 'conda-forge::pip=23.3.1'), 'conda-forge::pip=23.3.1');
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
