import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pretendedCuda } from '../../src/builds/recipe/conda/conda-platform.ts';
import { parsePackage, parseRequirement } from '../../src/builds/recipe/conda/package-spec.ts';
import { readBuildSource } from '../../src/builds/recipe/recipe-kinds.ts';
import { Fault } from '../../src/foundation/fault.ts';
import type { Platform } from '../../src/oci/platform.ts';

test('a package has a channel, a name and constraints', () => {
  const parts = (spec: string) => {
    const { channel = '-', name, constraint } = parsePackage(spec) ?? { name: '?', constraint: '' };
    return [channel, name, constraint];
  };
  assert.deepEqual(parts('bwa'), ['-', 'bwa', '']);
  assert.deepEqual(parts('bioconda::bwa=1'), ['bioconda', 'bwa', '=1']);
  assert.deepEqual(parts('https://x.example.com/c::bwa >=1,<2'), [
    'https://x.example.com/c',
    'bwa',
    ' >=1,<2',
  ]);
  assert.deepEqual(parts('bwa[build=h1]'), ['-', 'bwa', '[build=h1]']);
  assert.equal(parsePackage('https://x.example.com/linux-64/bwa-1-0.conda'), undefined);
});

test('a requirement has a name, and a version if it is pinned', () => {
  assert.deepEqual(parseRequirement('flask'), { name: 'flask' });
  assert.deepEqual(parseRequirement('flask[a,b] == 3.0 ; x'), { name: 'flask', version: '3.0' });
  assert.deepEqual(parseRequirement('flask===3.0'), { name: 'flask', version: '3.0' });
  assert.deepEqual(parseRequirement('flask>=3,<4'), { name: 'flask' });
  assert.deepEqual(parseRequirement('flask==3,!=3.1'), { name: 'flask' });
  assert.deepEqual(parseRequirement('flask @ https://x'), { name: 'flask' });
  for (const line of ['--pre', 'https://x/y', 'git+https://x', './here', 'a/b']) {
    assert.equal(parseRequirement(line), undefined, line);
  }
});

test('CUDA is emulated if a package requires it by name or build', () => {
  const table: readonly [packages: string[], version: string | undefined][] = [
    [['bwa', 'python=3.12'], undefined],
    [['cudapoa-like', 'barracuda'], undefined],
    [['pytorch-gpu'], '99'],
    [['conda-forge::cudnn'], '99'],
    [['cudatoolkit=11.8'], '11.8'],
    [['cuda-version=12'], '12'],
    [['pytorch', 'pytorch-cuda==12.1.3'], '12.1'],
    [['cuda-version>=12'], '99'],
    [['cudnn=8.9', 'x'], '99'],
    [['jaxlib=0.4=*cuda*'], '99'],
    [['https://x.example.com/linux-64/cuda-1-0.conda'], undefined],
  ];
  for (const [packages, version] of table)
    assert.equal(pretendedCuda(packages), version, `${packages}`);
});

test('packages for another platform than that of the build are refused', () => {
  const amd64 = { os: 'linux', architecture: 'amd64' };
  const arm64 = { os: 'linux', architecture: 'arm64' };
  const read = (platforms: Platform[], ...entries: string[]) =>
    readBuildSource({ packages: { type: 'CONDA', entries } }, platforms);
  const url = (subdir: string) => `https://x.example.com/c/${subdir}/a-1-0.conda`;
  const locked = `@EXPLICIT\n${url('noarch')}\n${url('linux-64')}`;
  read([amd64], locked);
  read([arm64], 'bwa', url('linux-aarch64'));
  read([amd64, arm64], 'https://x.example.com/conda.lock');
  readBuildSource({ containerFile: 'RlJPTSBh' }, [amd64, arm64]);
  const refused = {
    constructor: Fault,
    message: /linux-64\/a-1-0\.conda' is not for linux\/arm64: /,
  };
  assert.throws(
    () => read([amd64, arm64], locked),
    (error: Fault) => {
      assert.ok(error instanceof refused.constructor);
      assert.match(error.message, refused.message);
      return true;
    },
  );
  assert.throws(() => read([arm64], url('osx-arm64'), 'b'), Fault);
});

test('a token at any depth of an address is refused, and the message does not repeat it', () => {
  const list = (entries: readonly string[], channels?: readonly string[]) =>
    readBuildSource({ packages: { type: 'CONDA', entries, ...(channels ? { channels } : {}) } });
  const host = 'https://x.example.com/a/t/tk-1';
  const requests: readonly (() => unknown)[] = [
    () => list(['a'], [`${host}/c`]),
    () => list(['a'], ['t/tk-1/c']),
    () => list([`${host}/c/linux-64/a-1-0.conda`]),
    () => list([`@EXPLICIT\n${host}/c/linux-64/a-1-0.conda`]),
    () => list([`${host}/conda.lock`]),
    () => list(['b', `${host}/conda.lock`]),
    () => list([`${host}/c::a=1`]),
    () => list([`a[channel=${host}/c]`]),
    () => list(['a[version=1, channel=t/tk-1/c]']),
  ];
  for (const request of requests) {
    assert.throws(request, (error: Error) => {
      assert.match(error.message, /contains a token in an address/);
      return !error.message.includes('tk-1');
    });
  }
  const others = ['https://t/c', 'conda-forge/label/t', 'file:///srv/t/c'];
  list(['a[channel=https://x.example.com/t]'], others);
});
