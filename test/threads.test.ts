import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

test('a thread can be ended while it makes zlib streams', async () => {
  const program = fileURLToPath(new URL('world/unpacking-thread.ts', import.meta.url));
  const { stderr } = await promisify(execFile)(process.execPath, [program]);
  assert.equal(stderr, '');
});
