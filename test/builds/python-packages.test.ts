/** Which wheels an image gets, and when a builder is required instead. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BuilderRequired } from '../../src/builds/solve/conda/builder-required.ts';
import { findWheels } from '../../src/builds/solve/conda/python-packages.ts';
import { type BuiltWheel, UvFailed, WheelsMissing } from '../../src/pypi/index.ts';
import { condaProject } from '../pypi/solving/solving-world.ts';

const python = { ...condaProject('python', '3.12.4'), depends: [], build: 'h194c7f8_0_cpython' };
const lines: string[] = [];
const find = (
  pip: readonly string[],
  { packages = [python], subdir = 'linux-64', failure = undefined as Error | undefined } = {},
) =>
  findWheels(
    { packages, pip, isLocked: true },
    { subdir, virtualPackages: [{ name: '__glibc', version: '2.36' }] },
    {
      pythonSolver: { solve: async () => (failure ? Promise.reject(failure) : []) },
      uv: { isThere: () => failure !== undefined },
      commits: { commitOf: async () => assert.fail('no repository is named') },
      addressed: { read: async () => assert.fail('a lock file lists what its wheels require') },
    },
    { log: line => void lines.push(line), signal: new AbortController().signal },
  );
const line = (fileName: string) => {
  const [name = ''] = fileName.split('-');
  return `${name} @ https://files.test/${fileName}#sha256=${'a'.repeat(64)}`;
};

test('a wheel of a lock file that the image cannot run is refused', async () => {
  const fits = ['six-1-py2.py3-none-any.whl', 'a-1-cp312-cp312-manylinux_2_17_x86_64.whl'];
  assert.equal((await find(fits.map(line))).length, 2);
  const refused: readonly (readonly [string, object?])[] = [
    ['a-1-cp312-cp312-manylinux_2_17_aarch64.whl'],
    ['a-1-cp312-cp312-manylinux_2_17_x86_64.whl', { subdir: 'linux-aarch64' }],
    ['a-1-cp311-cp311-manylinux_2_17_x86_64.whl'],
    ['a-1-cp312-cp312-manylinux_2_39_x86_64.whl'],
    ['a-1-cp312-cp312-musllinux_1_2_x86_64.whl'],
    ['a-1-cp312-cp312-win_amd64.whl'],
  ];
  for (const [fileName, more] of refused) {
    await assert.rejects(find([line('six-1-py3-none-any.whl'), line(fileName)], more), {
      kind: 'bad-request',
      message: new RegExp(
        `^The wheel ${fileName} of the lock file does not run with Python 3\\.12\\.4 on Linux for .* with glibc 2\\.36`,
      ),
    });
  }
});

test('what uv cannot solve is for a builder, and the log has its words', async () => {
  const requires = (reasons: readonly string[]) => (error: unknown) => {
    assert.ok(error instanceof BuilderRequired);
    assert.deepEqual(error.reasons, reasons);
    return true;
  };
  const failure = new UvFailed("the 'pip' packages that the uv of this server cannot solve", 'why');
  await assert.rejects(find(['six'], { failure }), requires([failure.reason]));
  assert.deepEqual(lines, ['uv: why']);
  await assert.rejects(
    find(['six'], { failure: new WheelsMissing([{ name: 'six' }]) }),
    requires(['the source distribution of six']),
  );
  const projects = [
    { name: 'numpy', version: '1.21.0', olderPython: '3.9' },
    { name: 'six', version: '1.0', olderPython: '3.10' },
  ];
  await assert.rejects(find(['six'], { failure: new WheelsMissing(projects) }), error => {
    assert.ok(error instanceof BuilderRequired);
    assert.equal(
      error.reasons[0],
      `the source distribution of numpy 1.21.0 (its newest wheel is for Python 3.9)`,
    );
    assert.equal(error.olderPython, '3.9');
    return true;
  });
  await assert.rejects(find(['six']), requires(["the 'pip' packages of the lock file"]));
  // Its file may be another one tomorrow.
  await assert.rejects(
    find(['six @ https://files.test/six-1-py3-none-any.whl']),
    requires(['the address of six for pip']),
  );
});

test('a wheel at an address is read, and its solver gets what it requires', async () => {
  const url = 'https://files.test/six-1-py3-none-any.whl';
  const wheel = { name: 'six', version: '1', fileName: 'six-1-py3-none-any.whl', url };
  const made: BuiltWheel = { ...wheel, sha256: 'c'.repeat(64), metadata: 'Requires-Dist: lib' };
  const asked: object[] = [];
  const said: string[] = [];
  const open = (pip: readonly string[]) =>
    findWheels(
      { packages: [python], pip, isLocked: false },
      { subdir: 'linux-64', virtualPackages: [{ name: '__glibc', version: '2.36' }] },
      {
        pythonSolver: {
          async solve({ requirements, given = [] }) {
            asked.push(...requirements);
            return given;
          },
        },
        uv: { isThere: () => true },
        commits: { commitOf: async () => assert.fail('no repository is named') },
        addressed: { read: async named => ({ ...made, ...named }) },
      },
      { log: text => void said.push(text), signal: new AbortController().signal },
    );
  const [found] = await open([`six[B] @ ${url}`]);
  assert.equal(found?.sha256, made.sha256);
  assert.deepEqual(asked, [{ name: 'six', extras: ['b'], versions: '==1' }]);
  assert.deepEqual(said, [`six 1 at ${url} has the SHA-256 ${made.sha256}`]);
  const stated = 'd'.repeat(64);
  assert.equal((await open([`six @ ${url}#sha256=${stated}`]))[0]?.sha256, stated);
  assert.equal(said.length, 1, 'the request states the digest');
  const other = url.replace('-py3-none-any', '-cp311-cp311-linux_x86_64');
  const refused: readonly (readonly [readonly string[], RegExp])[] = [
    [[`six @ ${url}`, `six @ ${other}`], /^Two addresses of six for pip/],
    [[`six @ ${other}`], /does not run with Python 3\.12\.4 .*: name another file/],
    [[`six @ ${url}`, `lib==1 --hash=sha256:${stated}`], /have hashes, and six @ .* has none/],
    [
      Array.from({ length: 21 }, (_, at) => `a${at} @ ${url.replace('six', `a${at}`)}`),
      /More than 20/,
    ],
  ];
  for (const [pip, message] of refused) {
    await assert.rejects(open(pip), { kind: 'bad-request', message }, pip[0]);
  }
  // A request that leaves Python open gets it.
  await assert.rejects(open([`six @ ${other}`]), { olderPython: '3.11' });
});
