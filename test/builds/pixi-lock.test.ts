import assert from 'node:assert/strict';
import { test } from 'node:test';
import { planBuild } from '../../src/builds/plan/plan.ts';
import { readBuildSource } from '../../src/builds/recipe/recipe-kinds.ts';

const md5 = (digit: string) => digit.repeat(32);
const sha256 = (digit: string) => digit.repeat(64);
const url = (subdir: string, name: string) => `https://conda.test/${subdir}/${name}-1.0-0.conda`;
const wheel = 'https://files.test/rich-13.0.0-py3-none-any.whl';
const entry = (subdir: string, name: string, digit: string) =>
  `- conda: ${url(subdir, name)}\n  sha256: ${sha256(digit)}\n  md5: ${md5(digit)}\n  size: 7\n`;
const lock = `version: 6
environments:
  default:
    channels:
    - url: https://conda.test/
    packages:
      linux-64:
      - conda: ${url('linux-64', 'samtools')}
      - conda: ${url('noarch', 'data')}
      - pypi: ${wheel}
      linux-aarch64:
      - conda: ${url('linux-aarch64', 'samtools')}
packages:
${entry('linux-64', 'samtools', 'a')}${entry('linux-aarch64', 'samtools', 'b')}${entry('noarch', 'data', 'c')}- pypi: ${wheel}
  name: rich
  version: 13.0.0
  sha256: ${sha256('d')}
`;
const base64 = (text: string) => Buffer.from(text).toString('base64');

test('the lock file of pixi is read as the explicit lock file of its platform', () => {
  const wanted = {
    form: 'lock',
    urls: [`${url('linux-64', 'samtools')}#${md5('a')}`, `${url('noarch', 'data')}#${md5('c')}`],
    sha256s: [sha256('a'), sha256('c')],
    pip: [`rich @ ${wheel}#sha256=${sha256('d')}`],
  };
  const packages = (more: object) => ({ packages: { type: 'CONDA', ...more } });
  for (const submitted of [
    packages({ environment: base64(lock) }),
    packages({ environment: base64(lock.replaceAll('\n', '\r\n')) }),
    packages({ entries: [lock] }),
    packages({ entries: lock.split('\n') }),
    { condaFile: base64(lock) },
    // Windows programs write a byte order mark.
    { condaFile: base64(`\ufeff${lock}`) },
    packages({ entries: [`\ufeff${lock}`] }),
  ]) {
    const source = readBuildSource(submitted);
    assert.deepEqual(source.kind === 'conda' && source.wanted, wanted);
  }
  const byAddress = readBuildSource(packages({ entries: ['https://conda.test/pixi.lock'] }));
  assert.deepEqual(byAddress.kind === 'conda' && byAddress.wanted, {
    form: 'lockUrl',
    url: 'https://conda.test/pixi.lock',
  });
});

test('the key of the lock file of pixi is the key of the lock files of other forms with the same digests', () => {
  const places = { repository: 'registry.test/builds', cache: undefined, frozen: {} };
  const keyOf = (text: string, containerPlatform: string) =>
    planBuild({ condaFile: base64(text), containerPlatform }, places).key;
  const explicit = `@EXPLICIT\n${url('linux-aarch64', 'samtools')}#${md5('b')}\n`;
  assert.equal(keyOf(`\ufeff${explicit}`, 'linux/arm64'), keyOf(explicit, 'linux/arm64'));
  const withMd5 = lock.replace(/^ +sha256: b+\n/m, '');
  assert.equal(keyOf(withMd5, 'linux/arm64'), keyOf(explicit, 'linux/arm64'));
  const condaLock = [
    ...['version: 1', 'metadata:', 'package:', '- name: samtools', '  manager: conda'],
    ...['  platform: linux-aarch64', `  url: ${url('linux-aarch64', 'samtools')}`, '  hash:'],
    ...[`    md5: ${md5('b')}`, `    sha256: ${sha256('b')}`, ''],
  ].join('\n');
  assert.equal(keyOf(lock, 'linux/arm64'), keyOf(condaLock, 'linux/arm64'));
  assert.throws(
    () => keyOf(lock.replaceAll('linux-64', 'osx-64'), 'linux/amd64'),
    /no package for linux-64, only for linux-aarch64, osx-64/,
  );
});

test('a builder does not read the address of a pixi.lock, and the answer says what to send', () => {
  const places = { repository: 'registry.test/builds', cache: undefined, frozen: {} };
  const plan = (url: string, condaOpts = {}, conda: 'auto' | 'buildkit' = 'auto') =>
    planBuild({ packages: { type: 'CONDA', entries: [url], condaOpts } }, { ...places, conda });
  const message = /send the content of the file in 'packages\.environment'/;
  for (const url of ['https://conda.test/pixi.lock', 'https://own.test/lock?format=pixi']) {
    assert.ok(plan(url).key);
    assert.throws(() => plan(url, { commands: ['true'] }), { kind: 'bad-request', message });
    assert.throws(() => plan(url, {}, 'buildkit'), { kind: 'bad-request', message });
  }
  assert.ok(plan('https://conda.test/explicit.lock', { commands: ['true'] }).key);
});

test('a part of an explicit lock file is for the platform that its comment names', () => {
  const part = (subdir: string, digit: string) =>
    `# platform: ${subdir}\n@EXPLICIT\n${url(subdir, 'samtools')}#${md5(digit)}\n`;
  const text = part('linux-64', 'a') + part('linux-aarch64', 'b');
  const source = readBuildSource({ condaFile: base64(text) }, [
    { os: 'linux', architecture: 'arm64' },
  ]);
  assert.deepEqual(source.kind === 'conda' && source.wanted, {
    ...{ form: 'lock', pip: [] },
    urls: [`${url('linux-aarch64', 'samtools')}#${md5('b')}`],
  });
});
