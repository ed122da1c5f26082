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

/** Returns the names of tar entries. */
function namesIn(tar: Buffer): string[] {
  const list = execFileSync('tar', ['tf', '-', '--quoting-style=literal'], { input: tar });
  return list.toString().trim().split('\n');
}

test('the same archive, package and place give the same bytes', async () => {
  const packed = await packPackage(demo);
  const first = await installPacked(packed, directory);
  const second = await installPacked(packed, directory);
  assert.ok(first.tar.equals(second.tar));
  const elsewhere = await installPacked(packed, directory, { prefix: '/opt/other' });
  assert.ok(!first.tar.equals(elsewhere.tar));
});

test('a package that lists directories gets them', async () => {
  const paths = [{ _path: 'var/empty', path_type: 'directory' }];
  const packed = await packPackage({
    ...{ name: 'directories', version: '1', files: [{ name: 'var/empty' }] },
    info: { 'paths.json': JSON.stringify({ paths, paths_version: 1 }) },
  });
  const installed = await installPacked(packed, directory);
  assert.ok(namesIn(installed.tar).includes('opt/conda/var/empty/'));
  assert.deepEqual(installed.paths, []);
});

test('variables of the environment are known, damaged files of them say nothing', async () => {
  const folder = 'etc/conda/env_vars.d';
  const { variables } = await installPacked(
    await packPackage({
      ...{ name: 'variables', version: '1' },
      files: [
        { name: `${folder}/a.json`, content: '{"DATA": "a", "LIST": ["x"], "BAD=NAME": "x"}' },
        { name: `${folder}/b.json`, content: JSON.stringify({ DATA: `${placeholder}/share` }) },
        { name: `${folder}/c.json`, content: 'not json' },
        { name: `${folder}/deeper/d.json`, content: '{"DEEPER": "x"}' },
        { name: `${folder}/e.txt`, content: '{"TEXT": "x"}' },
      ],
    }),
    directory,
  );
  assert.deepEqual(variables, { DATA: '/opt/conda/share' });
});

test('scripts that must run when a package is linked are reported, and scripts for unlinking are not', async () => {
  const scripts = ['post-link', 'pre-link', 'pre-unlink'].map(name => ({
    name: `bin/.scripts-${name}.sh`,
    content: '#!/bin/sh\n',
  }));
  const other = { name: 'bin/.other-post-link.sh', content: '' };
  const packed = await packPackage({
    ...{ name: 'scripts', version: '1', files: [...scripts, other] },
    info: { 'post-link.sh': '' },
  });
  const { linkScripts } = await installPacked(packed, directory);
  assert.deepEqual(linkScripts, [
    'bin/.scripts-pre-link.sh',
    'bin/.scripts-post-link.sh',
    'info/post-link.sh',
  ]);
});

test('a command replaces a file of its name', async () => {
  const packed = await packPackage({
    ...{ name: 'twice', version: '1', noarch: 'python' },
    entryPoints: ['tool = one:run', 'tool = two:run'],
    files: [{ name: 'python-scripts/tool', content: 'a file' }],
  });
  const python = { minorVersion: '3.12', sitePackages: 'lib/python3.12/site-packages' };
  const { paths, tar } = await installPacked(packed, directory, { python });
  assert.deepEqual(paths, ['bin/tool']);
  assert.match(tar.toString(), /from two import run/);
  assert.doesNotMatch(tar.toString(), /a file/);
});
