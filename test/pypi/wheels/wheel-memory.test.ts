/** Memory does not grow with the files of a wheel. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { makeTempDir } from '../../world/temp-dir.ts';
import { type MadeMember, wheelOf } from './made-wheel.ts';

const mebibyte = 1024 * 1024;
// With the server's young generation: in the default one, three times as much is garbage.
const program = ['--max-semi-space-size=4', join(import.meta.dirname, 'measured-wheel.ts')];

async function growthOf(members: readonly MadeMember[], entries: number): Promise<number> {
  await using directory = await makeTempDir('wheel-memory');
  const { fileName, bytes } = wheelOf({ members });
  writeFileSync(directory.join(fileName), bytes);
  const arguments_ = [...program, directory.join(fileName), String(entries)];
  return Number(execFileSync(process.execPath, arguments_)) / mebibyte;
}

test('a wheel with a member of 300 MB, deflated or stored, is installed with a fraction of that in memory', async () => {
  const content = Buffer.alloc(300 * mebibyte, 'some text and more of it ');
  for (const isDeflated of [true, false]) {
    const growth = await growthOf([{ name: 'large', content, isDeflated }], 75_000);
    assert.ok(growth > 0 && growth < 90, `${growth} MiB`);
  }
});

test('a wheel of 99,000 files is installed with less than two kilobytes for each', async () => {
  const members = Array.from({ length: 99_000 }, (_, at) => ({
    name: `package_${at % 100}/module_${at % 7}/file_${at}.py`,
    content: `x = ${at}\n`,
    isDeflated: at % 2 === 0,
  }));
  const growth = await growthOf(members, 100_000);
  assert.ok(growth > 0 && growth < 180, `${growth} MiB`);
});
