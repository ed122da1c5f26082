import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fitOfWheel } from '../../../src/pypi/solving/python-target.ts';

const target = (version: string) => ({ version, machine: 'x86_64', glibc: '2.36' }) as const;
const fits = (tags: string, version: string) =>
  fitOfWheel(`numpy-1.17.2-${tags}-manylinux1_x86_64.whl`, target(version)) !== undefined;

test('the interface of a Python up to 3.7 has a letter, and that of a newer one has none', () => {
  assert.ok(fits('cp36-cp36m', '3.6.15'));
  assert.ok(fits('cp37-cp37m', '3.7.16'));
  assert.ok(fits('cp38-cp38', '3.8.20'));
  for (const [tags, version] of [
    ['cp36-cp36', '3.6.15'],
    ['cp36-cp36m', '3.7.16'],
    ['cp37-cp37', '3.7.16'],
    ['cp38-cp38m', '3.8.20'],
  ] as const) {
    assert.ok(!fits(tags, version), `${tags} ${version}`);
  }
});

test('the wheel of the Python itself comes before the stable interface and pure Python', () => {
  const rank = (tags: string) => fitOfWheel(`lib-1.0-${tags}.whl`, target('3.12.4')) ?? Infinity;
  const tags = [
    ...['cp312-cp312-manylinux_2_28_x86_64', 'cp312-cp312-manylinux2014_x86_64'],
    ...['cp312-abi3-manylinux2014_x86_64', 'cp39-abi3-manylinux2014_x86_64', 'py3-none-any'],
  ];
  assert.deepEqual(
    tags.toReversed().sort((one, other) => rank(one) - rank(other)),
    tags,
  );
  for (const other of ['cp312-cp312-macosx_11_0_arm64', 'cp313-abi3-manylinux2014_x86_64']) {
    assert.equal(rank(other), Infinity, other);
  }
});
