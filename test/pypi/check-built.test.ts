import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkBuiltWheel, identityOfWheel } from '../../src/pypi/index.ts';

const target = { version: '3.11.2', machine: 'x86_64', glibc: '2.36' } as const;

const check = (fileName: string, metadata = 'Name: Some.Tool\nVersion: 1.0\n') =>
  checkBuiltWheel(
    {
      ...{ name: 'some-tool', version: '1.0.0', fileName, metadata },
      source: { fileName: 'some_tool-1.0.0.tar.gz', url: 'https://example.org', sha256: '' },
    },
    target,
  );

test('a wheel that was built is the one that its source promises', () => {
  for (const fileName of [
    'some_tool-1.0-py3-none-any.whl',
    'Some.Tool-1.0.0-py2.py3-none-any.whl',
    'some_tool-1.0-1-cp311-cp311-linux_x86_64.whl',
  ]) {
    check(fileName);
  }
  const another = /has made a wheel with the name ".*", which is of another project or version$/;
  for (const fileName of [
    'other-1.0-py3-none-any.whl',
    'some_tool-2.0-py3-none-any.whl',
    'some_tool-1.0-py3-none-any.zip',
    '../some_tool-1.0-py3-none-any.whl',
    'some_tool-1.0-py3-none-any\n.whl',
    'some_tool-1.0-py3-none-any.whl.exe',
    `some_tool-1.0-py3-none-${'a'.repeat(300)}.whl`,
  ]) {
    assert.throws(() => check(fileName), another, fileName);
  }
  for (const [fileName, metadata, message] of [
    [
      'some_tool-1.0-cp311-cp311-linux_aarch64.whl',
      undefined,
      /"some_tool-1\.0-cp311-cp311-linux_aarch64\.whl", which does not run with Python 3\.11\.2 on Linux for x86_64 with glibc 2\.36$/,
    ],
    ['some_tool-1.0-cp312-cp312-linux_x86_64.whl', undefined, /does not run with Python 3\.11\.2/],
    [
      'some_tool-1.0-py3-none-any.whl',
      'Name: other\nVersion: 1.0\n',
      /contains the package "other"/,
    ],
    ['some_tool-1.0-py3-none-any.whl', 'Name: some-tool\nVersion: 2\n', /contains version "2"/],
    ['some_tool-1.0-py3-none-any.whl', '', /METADATA without a name/],
  ] as const) {
    assert.throws(() => check(fileName, metadata), message, fileName);
  }
});

test('the name of a wheel says its project and version', () => {
  const some = { name: 'some-tool', version: '1.0' };
  assert.deepEqual(identityOfWheel('Some.Tool-1.0-py3-none-any.whl'), some);
  for (const fileName of ['some_tool-one-py3-none-any.whl', 'some_tool-1.0.tar.gz', 'some_tool']) {
    assert.equal(identityOfWheel(fileName), undefined, fileName);
  }
});
