import assert from 'node:assert/strict';
import { test } from 'node:test';
import { projectVersion } from '../../../src/pypi/project-version.ts';
import { installedProjects } from '../../../src/pypi/solving/installed-projects.ts';
import { condaProject } from './solving-world.ts';

test('spellings of one version are the same, and other versions are not', () => {
  const same = [
    ['1.0', '1', 'v1.0.0', '0!1', '01.0'],
    ['1.0.post1', '1-1', '1.0.rev1', '1_POST-1'],
    ['1.0rc1', '1.0c1', '1-preview_1', '1.0.0rc01'],
    ['1.0a0.dev0', '1.alpha.dev'],
    ['1.0+abc.1', '1+ABC_01'],
    ['1.0.1'],
    ['1.0.0.1'],
    ['1!1.0'],
    ['1.2'],
    ['1!2'],
    ['1.0.dev1'],
    ['1.0.post0'],
  ];
  const keys = same.map(list => new Set(list.map(projectVersion)));
  for (const [at, found] of keys.entries()) assert.equal(found.size, 1, String(same[at]));
  assert.equal(new Set(keys.flatMap(found => [...found])).size, same.length);
  for (const other of ['1.0a1b2', '1.1.1w', '', '1..2', '1.0+', 'main']) {
    assert.equal(projectVersion(other), undefined, other);
  }
});

test('a version of Conda that no index can have does not count as installed', () => {
  const packages = ['1.0.post1', '1!2.0', '1.0a1b2'].map((version, at) =>
    condaProject(`p${at}`, version),
  );
  assert.deepEqual(
    [...installedProjects(packages)],
    [
      ['p0', '1.0.post1'],
      ['p1', '1!2.0'],
    ],
  );
});

test('parts of a project that Conda packs under other names count as the project', () => {
  const names = [
    'python-tzdata',
    'brotli-python',
    'nbconvert-core',
    'snakemake-minimal',
    'vtk-base',
  ];
  const found = installedProjects(names.map(name => condaProject(name, '1.0')));
  assert.deepEqual([...found.keys()], ['tzdata', 'brotli', 'nbconvert', 'snakemake', 'vtk']);
});
