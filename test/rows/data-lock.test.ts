import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { lockData } from '../../src/storage/directory/data-lock.ts';
import { eventually } from '../world/eventually.ts';
import { makeTempDir } from '../world/temp-dir.ts';

test('a data directory belongs to one server until that server has ended, in any way', async () => {
  await using directory = await makeTempDir('lock');
  const program = `
    const { lockData } = await import(process.argv[1]);
    globalThis.lock = await lockData(process.argv[2], () => {});
    console.log('locked');
    setInterval(() => {}, 1000);`;
  const module = new URL('../../src/storage/directory/data-lock.ts', import.meta.url).href;
  const args = ['--input-type=module', '-e', program, module, directory.path];
  const other = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  try {
    await once(other.stdout, 'data');
    let waits = 0;
    let isTaken = false;
    const taking = lockData(directory.path, () => {
      waits += 1;
    }).then(lock => {
      isTaken = true;
      return lock;
    });
    await eventually('it is waited for', () => waits > 0);
    await sleep(700);
    assert.deepEqual([waits, isTaken], [1, false]);
    other.kill('SIGKILL');
    const lock = await taking;
    lock[Symbol.dispose]();
    (await lockData(directory.path, () => assert.fail('it is free')))[Symbol.dispose]();
  } finally {
    other.kill('SIGKILL');
  }
});
