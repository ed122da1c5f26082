/** A package archive becomes the tar entries of the installed package. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { after, before, test } from 'node:test';
import { type CondaPackage, packPackage, placeholder } from '../../world/conda-package.ts';
import { makeTempDir, type TempDir } from '../../world/temp-dir.ts';
import { installPacked } from './installed.ts';

let directory: TempDir;
before(async () => {
  directory = await makeTempDir('conda-install');
});
after(() => directory.remove());

const demo: CondaPackage = {
  name: 'demo',
  version: '1.0',
  files: [
    { name: 'lib/ä b', content: 'x' },
    { name: 'bin/demo', content: `#!${placeholder}/bin/python\nhi\n`, mode: 0o775 },
    { name: 'lib/link', link: 'ä b' },
  ],
};

test('the entries of a package are sorted, below the prefix, and belong to root', async () => {
  const { tar, paths } = await installPacked(await packPackage(demo), directory);
  assert.deepEqual(paths, ['bin/demo', 'lib/link', 'lib/ä b']);
  const list = execFileSync('tar', ['tvf', '-', '--quoting-style=literal'], {
    input: tar,
    env: { ...process.env, TZ: 'UTC', LC_ALL: 'C.UTF-8' },
  }).toString();
  const lines = list
    .trim()
    .split('\n')
    .map(line => line.replace(/\s+\d+ 1980-01-01 00:00 /, ' '));
  assert.deepEqual(lines, [
    'drwxr-xr-x 0/0 opt/',
    'drwxr-xr-x 0/0 opt/conda/',
    'drwxr-xr-x 0/0 opt/conda/bin/',
    '-rwxrwxr-x 0/0 opt/conda/bin/demo',
    'drwxr-xr-x 0/0 opt/conda/lib/',
    'lrwxrwxrwx 0/0 opt/conda/lib/link -> ä b',
    '-rw-r--r-- 0/0 opt/conda/lib/ä b',
    'drwxr-xr-x 0/0 opt/conda/conda-meta/',
    '-rw-r--r-- 0/0 opt/conda/conda-meta/demo-1.0-0.json',
  ]);
});

test('an archive with another digest than its package is refused', async () => {
  const packed = await packPackage(demo);
  const wrong = { package: { sha256: '0'.repeat(64) } };
  await assert.rejects(installPacked(packed, directory, wrong), {
    name: 'Fault',
    kind: 'upstream-unusable',
    message: /demo-1\.0-0\.conda.*has the digest sha256:/,
  });
});
