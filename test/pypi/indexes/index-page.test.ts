/** Pages of indexes as the solver gets them: which files they have, and their addresses. */
import assert from 'node:assert/strict';
import { createSecretKey } from 'node:crypto';
import { test } from 'node:test';
import { publishedFile, rewrittenPage } from '../../../src/pypi/indexes/index-page.ts';
import { versionsInPage } from '../../../src/pypi/indexes/versions-in-page.ts';

const key = Buffer.alloc(32, 'k');
const sha256 = 'a'.repeat(64);

interface PageFile {
  readonly filename: string;
  readonly url: string;
  readonly size?: number;
}

function bytesOf(files: readonly object[]): Uint8Array {
  const body = Buffer.from(JSON.stringify({ files }));
  const url = 'https://index.test/simple/lib/';
  return rewrittenPage({ body, contentType: 'application/json', url, project: 'lib', key });
}

function pageOf(files: readonly object[]): PageFile[] {
  return JSON.parse(Buffer.from(bytesOf(files)).toString()).files;
}

test('wheels that no image can use are left out', () => {
  const used = [
    'lib-1-py3-none-any.whl',
    'lib-1-py2.py3-none-any.whl',
    'lib-1-cp312-cp312-manylinux_2_17_x86_64.manylinux2014_x86_64.whl',
    'lib-1-cp39-abi3-manylinux_2_28_aarch64.whl',
    'lib-1-2build-cp311-cp311-linux_x86_64.whl',
    'lib-1.tar.gz',
  ];
  const unused = [
    'lib-1-py2-none-any.whl',
    'lib-1-cp27-cp27mu-manylinux1_x86_64.whl',
    'lib-1-pp310-pypy310_pp73-manylinux_2_17_x86_64.whl',
    'lib-1-cp312-cp312-musllinux_1_2_x86_64.whl',
    'lib-1-cp312-cp312-manylinux_2_17_s390x.whl',
    'lib-1-cp312-cp312-manylinux_2_17_i686.whl',
    'lib-1-cp312-cp312-macosx_11_0_arm64.whl',
    'lib-1-cp312-cp312-win_amd64.whl',
  ];
  const files = [...unused, ...used].map(filename => ({
    filename,
    url: `/f/${filename}`,
    hashes: { sha256 },
  }));
  const names = pageOf(files).map(({ filename }) => filename);
  assert.deepEqual(names, used);
});

test('a version without any file for images has one wheel, of which the solver says what is wrong', () => {
  const listed = [
    'lib-1-cp312-cp312-musllinux_1_2_x86_64.whl',
    'lib-1-cp311-cp311-musllinux_1_2_x86_64.whl',
    'lib-2-py2-none-any.whl',
    'lib-3-cp312-cp312-win_amd64.whl',
    'lib-4-py2-none-any.whl',
    'lib-4.tar.gz',
    'lib-5-cp312-cp312-musllinux_1_2_x86_64.whl',
    'lib-5-cp312-cp312-manylinux_2_17_x86_64.whl',
  ];
  const files = listed.map(filename => ({ filename, url: `/f/${filename}`, hashes: { sha256 } }));
  const names = pageOf(files).map(({ filename }) => filename);
  assert.deepEqual(names, [listed[5], listed[7], listed[0], listed[2]]);
  assert.deepEqual(versionsInPage(bytesOf(files)), [
    { version: '5', hasWheel: true },
    ...['4', '2', '1'].map(version => ({ version, hasWheel: false })),
  ]);
});

test('a size that is none is left out', () => {
  const sizes = [1, 0, -5, 1.5, 2 ** 53, '7', 1e14];
  const files = sizes.map((size, at) => {
    const filename = `lib-${at}-py3-none-any.whl`;
    return { filename, url: `/f/${filename}`, hashes: { sha256 }, size };
  });
  assert.deepEqual(
    pageOf(files).map(({ size }) => size),
    [1, ...Array.from({ length: 5 }, () => undefined), 1e14],
  );
});

test('an address of a page is the file that the index lists, and no other one', () => {
  const addresses = [
    ['lib-1+cpu-py3-none-any.whl', 'https://files.test/a/lib-1%2Bcpu-py3-none-any.whl'],
    ['lib-2+cpu-py3-none-any.whl', 'https://files.test/a/lib-2+cpu-py3-none-any.whl'],
    ['lib-3-py3-none-any.whl', 'https://files.test/download/17'],
    ['lib-4-py3-none-any.whl', 'https://files.test/a/b/lib-4-py3-none-any.whl'],
    ['lib-5-py3-none-any.whl', 'https://files.test/download/18/'],
  ] as const;
  const page = pageOf(addresses.map(([filename, url]) => ({ filename, url, hashes: { sha256 } })));
  const secret = createSecretKey(key);
  for (const [at, [fileName, url]] of addresses.entries()) {
    const path = new URL(page[at]?.url ?? '', 'http://127.0.0.1/s/simple/lib/').pathname;
    const found = publishedFile(path, secret);
    assert.deepEqual(found?.file, {
      ...{ url, fileName, size: undefined },
      ...{ metadata: 'inside', digest: sha256 },
    });
    const other = path.replace(/\.i\./, '.b.');
    assert.notEqual(other, path);
    assert.equal(publishedFile(other, secret), undefined);
    assert.equal(publishedFile(path, createSecretKey(Buffer.alloc(32))), undefined);
  }
});
