import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { withoutOtherWheels } from '../../src/cli/containers/source/python-lock-lines.ts';
import { readPythonLock } from '../../src/pypi/locks/read-python-lock.ts';

test('a lock file without the wheels of other systems installs the same', async () => {
  for (const file of ['uv.lock', 'pylock.toml', 'poetry.lock']) {
    const path = new URL(`../pypi/locks/fixtures/${file}`, import.meta.url);
    const text = readFileSync(path, 'utf8');
    const shorter = withoutOtherWheels(text);
    assert.ok(shorter.length < text.length * 0.7, `${file}: ${shorter.length} of ${text.length}`);
    for (const machine of ['x86_64', 'aarch64'] as const) {
      const [whole, cut] = await Promise.all(
        [text, shorter].map(text => {
          const system = { machine, glibc: '2.36' };
          const parts = { extras: [], groups: ['dev'] };
          const order = { name: file, text, system, version: '3.12.1' };
          return readPythonLock.packages({
            ...order,
            parts: file === 'pylock.toml' ? { ...parts, groups: [] } : parts,
          });
        }),
      );
      assert.deepEqual(cut?.wheels, whole?.wheels);
      assert.deepEqual(
        cut?.lookups.map(({ name }) => name),
        whole?.lookups.map(({ name }) => name),
      );
    }
  }
});
