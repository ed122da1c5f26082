/** Memory does not grow with the package, and nothing is left on the disk. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { tarOf } from '../../corpus/layer.ts';
import type { PackedPackage } from '../../world/conda-package.ts';
import { placeholder } from '../../world/conda-package.ts';
import { makeTempDir, type TempDir } from '../../world/temp-dir.ts';
import { listed, madeArchive, rawTar } from '../archives/made-archive.ts';

const mebibyte = 1024 * 1024;
// With the server's young generation: in the default one, three times as much is garbage.
const program = ['--max-semi-space-size=4', join(import.meta.dirname, 'measured-install.ts')];

test('a program of 300 MB is installed with a fraction of that in memory', async () => {
  await using directory = await makeTempDir('conda-memory');
  const block = Buffer.alloc(mebibyte, 'some text and more of it ');
  block.write(`${placeholder}/lib\0`, 1000);
  const content = Buffer.concat(Array.from({ length: 300 }, () => block));
  const patch = { prefix_placeholder: placeholder, file_mode: 'binary' };
  const archive = await madeArchive({
    files: await tarOf([{ name: 'bin/large', content }]),
    paths: [listed('bin/large', 'hardlink', patch)],
  });
  assertSmall(archive, directory);
});

test('a package of 74,000 files, each with the prefix, is installed with about a kilobyte for each', async () => {
  await using directory = await makeTempDir('conda-memory');
  const names = Array.from({ length: 74_000 }, (_, at) => {
    return `lib/python3.12/site-packages/package_${at % 100}/module_${at % 7}/file_${at}.py`;
  });
  const prefix = '/opt/placeholder_placeholder';
  const body = `#!${prefix}/bin/python\n`;
  const about = {
    sha256: createHash('sha256').update(body).digest('hex'),
    size_in_bytes: body.length,
    ...{ prefix_placeholder: prefix, file_mode: 'text' },
  };
  const archive = await madeArchive({
    files: rawTar(names.map(name => ({ name, body }))),
    paths: names.map(name => listed(name, 'hardlink', about)),
  });
  // 98 MiB on a quiet machine. Beside other work the collector is late: 121 MiB were seen.
  assertSmall(archive, directory, 150);
});

/** Checks how much memory an installation takes, and that it leaves nothing. */
function assertSmall({ bytes, fileName }: PackedPackage, directory: TempDir, mostMib = 120): void {
  const path = directory.join(fileName);
  writeFileSync(path, bytes);
  const growth = Number(execFileSync(process.execPath, [...program, path, directory.path]));
  assert.ok(growth > 0 && growth < mostMib * mebibyte, `${growth / mebibyte} MiB`);
  assert.deepEqual(readdirSync(directory.path), [fileName]);
}
