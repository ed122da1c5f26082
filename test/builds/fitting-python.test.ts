/** Which Python an image of pip packages gets: real solvers, channels and indexes that really answer. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { CondaSource } from '../../src/builds/recipe/conda/conda-source.ts';
import { readBuildSource } from '../../src/builds/recipe/recipe-kinds.ts';
import { BuilderRequired } from '../../src/builds/solve/conda/builder-required.ts';
import { findFitting } from '../../src/builds/solve/conda/fitting-python.ts';
import { readLock } from '../../src/conda/locks/read-lock.ts';
import { compareTexts } from '../../src/foundation/text.ts';
import { listed, solverFor } from '../conda/solving/solver-world.ts';
import { scriptedIndex } from '../pypi/solving/scripted-index.ts';
import { indexAt, solverFor as pythonSolverFor } from '../pypi/solving/solving-world.ts';
import { startCondaChannels } from '../world/conda-channels.ts';
import { nativeSubdir } from '../world/conda-package.ts';

const pythons = ['3.13.1', '3.11.4', '3.9.2'].map(version => ({ name: 'python', version }));

/** Solves entries with the channel `here` and an index of these files. */
async function finder(
  t: TestContext,
  channels: string,
  files: Readonly<Record<string, readonly string[]>>,
) {
  const { solver } = await solverFor(t, [listed(channels)]);
  const index = await scriptedIndex(t, files);
  const python = await pythonSolverFor(t, [indexAt(index.url, 'https://pypi.org/simple')]);
  const lines: string[] = [];
  const refuse = async () => assert.fail('it was called');
  const others = { commits: { commitOf: refuse }, addressed: { read: refuse } };
  const find = async (...entries: readonly string[]) => {
    lines.length = 0;
    const { packages, wheels } = await findFitting(
      readBuildSource({
        packages: {
          ...{ type: 'CONDA', channels: [`${channels}/here`], entries },
          condaOpts: { basePackages: '' },
        },
      }) as CondaSource,
      { subdir: nativeSubdir, virtualPackages: [{ name: '__glibc', version: '2.36' }] },
      {
        ...{ solver, readLock, channels: { open: refuse }, readOwnLock: refuse },
        ...{ pythonSolver: python.solver, uv: { isThere: () => true }, ...others },
      },
      { signal: AbortSignal.timeout(300_000), log: line => void lines.push(line) },
    );
    const versions = packages.toSorted((one, other) => compareTexts(one.name, other.name));
    return [versions.map(it => it.version).join(), ...wheels.map(({ fileName }) => fileName)];
  };
  return { find, lines };
}

test('a request that leaves Python open gets the newest one for which its packages have wheels', async t => {
  const channels = await startCondaChannels({ here: pythons });
  t.after(() => channels.stop());
  const { find, lines } = await finder(t, channels.url, {
    both: ['both-1.0-cp311-none-any.whl', 'both-1.0-cp39-none-any.whl', 'both-1.0.tar.gz'],
    old: ['old-1.0-cp39-none-any.whl', 'old-1.0.tar.gz'],
    source: ['source-1.0.tar.gz'],
    all: ['all-1.0-py3-none-any.whl'],
    older: ['older-1.0-cp38-none-any.whl', 'older-1.0.tar.gz'],
  });
  assert.deepEqual(await find('pip:all'), ['3.13.1', 'all-1.0-py3-none-any.whl']);
  assert.deepEqual(lines, []);
  assert.deepEqual(await find('pip:both'), ['3.11.4', 'both-1.0-cp311-none-any.whl']);
  assert.match(lines.join('\n'), /wheels for an older Python: solving with 3\.11/);
  assert.deepEqual(await find('pip:both', 'pip:old'), [
    '3.9.2',
    'both-1.0-cp39-none-any.whl',
    'old-1.0-cp39-none-any.whl',
  ]);
  assert.deepEqual(await find('python', 'pip:old'), ['3.9.2', 'old-1.0-cp39-none-any.whl']);
  const requires =
    (...reasons: readonly string[]) =>
    (error: unknown) => {
      assert.ok(error instanceof BuilderRequired, String(error));
      assert.deepEqual(error.reasons, reasons);
      return true;
    };
  const ofOld = 'the source distribution of old 1.0 (its newest wheel is for Python 3.9)';
  await assert.rejects(find('python=3.11', 'pip:old'), requires(ofOld));
  assert.deepEqual(lines, [], 'a version that was asked for stays');
  const ofSource = 'the source distribution of source 1.0';
  await assert.rejects(find('pip:old', 'pip:source'), requires(ofOld, ofSource));
  assert.deepEqual(lines, [], 'no Python has a wheel of it');
  await assert.rejects(
    find('pip:older'),
    requires('the source distribution of older 1.0 (its newest wheel is for Python 3.8)'),
  );
});

test('versions that pip requires of a package of Conda decide which version of it Conda installs', async t => {
  const numpy = ['2.3.0', '1.26.4', '1.24.0'].map(version => ({
    name: 'numpy',
    version,
    depends: ['python'],
  }));
  const torch = { name: 'pytorch', version: '2.5.1', depends: ['python', 'numpy >=1.26'] };
  const channels = await startCondaChannels({ here: [...pythons, ...numpy, torch] });
  t.after(() => channels.stop());
  const { find, lines } = await finder(t, channels.url, {
    numpy: ['numpy-1.24.0-py3-none-any.whl', 'numpy-1.25.0-py3-none-any.whl'],
    own: ['own-1.0-py3-none-any.whl'],
  });
  const own = 'own-1.0-py3-none-any.whl';
  assert.deepEqual(await find('pytorch', 'pip:own'), ['2.3.0,3.13.1,2.5.1', own]);
  assert.deepEqual(lines, [], 'Conda is solved once where both fit');
  for (const spec of ['numpy==1.26.4', 'numpy<2', 'numpy==1.26.*', 'numpy~=1.26.0']) {
    assert.deepEqual(await find('pytorch', `pip:${spec}`, 'pip:own'), ['1.26.4,3.13.1,2.5.1', own]);
    assert.match(lines.join('\n'), /Solving Conda again with the versions of pip: numpy /);
  }
  // Versions that Conda does not have with the other packages are refused with the first explanation.
  for (const spec of ['numpy==1.25.0', 'numpy==1.24.0']) {
    await assert.rejects(
      find('pytorch', `pip:${spec}`),
      /These packages are from Conda: numpy 2\.3\.0/,
    );
    assert.match(lines.join('\n'), /Conda has no solution with these versions/);
  }
});
