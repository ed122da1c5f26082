import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type UnbuiltProject, WheelsMissing } from '../../../src/pypi/index.ts';
import { realIndex } from '../../world/python-index.ts';
import { condaProject, indexAt, solverFor, target } from './solving-world.ts';

const publicIndex = 'https://pypi.org/simple';

const missing =
  (...projects: readonly UnbuiltProject[]) =>
  (error: unknown) => {
    assert.ok(error instanceof WheelsMissing, String(error));
    const found = error.projects.map(({ source, ...project }) => {
      // Each has a source distribution that can be built.
      assert.match(source?.sha256 ?? '', /^[0-9a-f]{64}$/);
      assert.match(source?.url ?? '', /^https?:\/\/\S+\.(?:tar\.gz|zip)$/);
      return project;
    });
    assert.deepEqual(found, projects);
    return true;
  };

test('real packages are solved over the loopback index, with those of Conda as installed', async t => {
  const { url, files } = await realIndex();
  const { solve } = await solverFor(t, [indexAt(url, publicIndex), indexAt(files, files)]);

  const [six, ...others] = await solve(['six==1.17.0']);
  assert.deepEqual(others, []);
  assert.equal(six?.fileName, 'six-1.17.0-py2.py3-none-any.whl');
  assert.equal(six?.sha256, '4721f391ed90541fddacab5acf947aa0d3dc7d27b2e1e8eda2be8970586c3274');
  assert.equal(new URL(six?.url ?? '').origin, files);

  const wheels = await solve(
    ['pandas==2.2.3', 'requests[socks]==2.32.3'],
    [condaProject('numpy', '1.26.4')],
  );
  const names = wheels.map(({ name }) => name);
  assert.ok(names.includes('pysocks') && !names.includes('numpy'), names.join(' '));
  const pandas = wheels.find(({ name }) => name === 'pandas');
  assert.match(pandas?.fileName ?? '', /^pandas-2\.2\.3-cp312-cp312-manylinux_2_17_x86_64/);

  const arm = await solve(['numpy==2.1.0'], [], { ...target, machine: 'aarch64' });
  assert.match(arm[0]?.fileName ?? '', /^numpy-2\.1\.0-cp312-cp312-manylinux_2_17_aarch64/);

  await assert.rejects(
    solve(['pandas==2.2.3'], [condaProject('numpy', '1.20.0')]),
    /^Fault: The Python packages have no solution\. .*numpy.*These packages are from Conda: numpy 1\.20\.0\. Ask Conda for versions that fit, or pip for other ones\.$/s,
  );
  await assert.rejects(
    solve(['loompy==3.0.7', 'docopt==0.6.2']),
    missing({ name: 'docopt', version: '0.6.2' }, { name: 'loompy', version: '3.0.7' }),
  );
  await assert.rejects(
    solve(['numpy==1.21.0'], [], { ...target, version: '3.13.1' }),
    missing({ name: 'numpy', version: '1.21.0', olderPython: '3.9' }),
  );
});
