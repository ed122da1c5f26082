/** A conversion alone, without a server around it; many files and 2 GiB are in integration/sif-large. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { createWriteStream } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { createZstdCompress } from 'node:zlib';
import { makeTempDir } from '../world/temp-dir.ts';
import { requireCommand } from '../world/tools.ts';
import { convert, describeFile } from './conversion.ts';
import { tarLayer, tarOf } from './tar-file.ts';

const mebibyte = 1024 * 1024;
// As `npm start` runs the server.
const nodeFlags = ['--max-semi-space-size=4'];
const child = join(import.meta.dirname, 'convert-child.ts');

interface Converted {
  /** Bytes. */
  readonly memory: number;
  readonly path: string;
}

async function convertApart(directory: string, layer: string): Promise<Converted> {
  const scratch = join(directory, 'scratch');
  await mkdir(scratch);
  const args = [...nodeFlags, child, scratch, layer];
  const { stdout } = await promisify(execFile)(process.execPath, args);
  return JSON.parse(stdout);
}

test('a large file in a zstd layer is never in memory', async () => {
  await using directory = await makeTempDir('large-file');
  const layer = directory.join('layer');
  const size = 600 * mebibyte;
  const header = tarOf([{ name: 'large', pax: { size: String(size) } }], { end: false });
  function* tar() {
    yield header;
    const block = Buffer.alloc(mebibyte);
    for (let at = 0; at < size; at += mebibyte) {
      block.fill(`${at} is a number, and what follows is the same again. `);
      yield Buffer.from(block);
    }
    yield Buffer.alloc(1024);
  }
  await pipeline(Readable.from(tar()), createZstdCompress(), createWriteStream(layer));
  const { memory, path } = await convertApart(directory.path, layer);
  assert.ok(memory < 250 * mebibyte, `${Math.round(memory / mebibyte)} MiB`);
  const { squashfs } = await describeFile(path);
  const list = ['-offset', String(squashfs?.offset), '-lln', path, 'large'];
  const { stdout } = await promisify(execFile)(requireCommand('unsquashfs'), list);
  assert.match(stdout, new RegExp(` ${size} \\d{4}-`));
});

test('very many files of one size in one directory are found, and stored once', async () => {
  // mksquashfs compared 80,000 files of one size for 85 seconds.
  const count = 40_000;
  const contents = 20_000;
  const parts = Array.from({ length: count }, (_, at) => ({
    name: `many/name-${at}`,
    content: `${at % contents}`.padStart(20),
  }));
  const began = performance.now();
  await using conversion = await convert([tarLayer(parts)]);
  const seconds = (performance.now() - began) / 1000;
  assert.ok(seconds < 20, `${seconds} seconds`);
  const { squashfs } = await conversion.describe();
  const place = ['-offset', String(squashfs?.offset)];
  const unsquashfs = requireCommand('unsquashfs');
  const about = await promisify(execFile)(unsquashfs, [...place, '-s', conversion.sif.path]);
  assert.match(about.stdout, /Duplicates are removed/);
  // 20 bytes of each content, in blocks of 128 KiB.
  assert.match(about.stdout, /Number of fragments 4\n/);
  const cat = [...place, '-cat', conversion.sif.path, 'many/name-7', 'many/name-39999'];
  const { stdout } = await promisify(execFile)(unsquashfs, cat);
  assert.equal(stdout, '7'.padStart(20) + '19999'.padStart(20));
});
