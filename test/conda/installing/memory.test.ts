/** Memory does not grow with the package, and nothing is left on the disk. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { tarOf } from '../../corpus/layer.ts';
import { placeholder } from '../../world/conda-package.ts';
import { makeTempDir } from '../../world/temp-dir.ts';
import { listed, madeArchive } from '../archives/made-archive.ts';

const mebibyte = 1024 * 1024;
const program = join(import.meta.dirname, 'measured-install.ts');

test('a program of 300 MB is installed with a fraction of that in memory', async () => {
  await using directory = await makeTempDir('conda-memory');
  const block = Buffer.alloc(mebibyte, 'some text and more of it ');
  block.write(`${placeholder}/lib\0`, 1000);
  const content = Buffer.concat(Array.from({ length: 300 }, () => block));
  const patch = { prefix_placeholder: placeholder, file_mode: 'binary' };
  const { bytes, fileName } = await madeArchive({
    files: await tarOf([{ name: 'bin/large', content }]),
    paths: [listed('bin/large', 'hardlink', patch)],
  });
  const path = directory.join(fileName);
  writeFileSync(path, bytes);
  const growth = Number(execFileSync(process.execPath, [program, path, directory.path]));
  assert.ok(growth > 0 && growth < 120 * mebibyte, `${growth / mebibyte} MiB`);
  assert.deepEqual(readdirSync(directory.path), [fileName]);
});
