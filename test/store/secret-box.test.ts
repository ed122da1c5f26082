import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { statSync, writeFileSync } from 'node:fs';
import { test } from 'node:test';
import { readKeyFile } from '../../src/store/key-file.ts';
import { createSecretBox } from '../../src/store/secret-box.ts';
import { makeTempDir } from '../world/temp-dir.ts';

test('a sealed secret comes back, and differs each time it is sealed', () => {
  const box = createSecretBox(randomBytes(32));
  const [one, other] = [box.seal('s3cret ü', 'row 1'), box.seal('s3cret ü', 'row 1')];
  assert.notEqual(one, other);
  assert.equal(one.includes('s3cret'), false);
  assert.equal(box.open(one, 'row 1'), 's3cret ü');
});

test('a secret does not open for another place, with another key, or changed', () => {
  const box = createSecretBox(randomBytes(32));
  const sealed = box.seal('s3cret', 'row 1');
  const changed = `${sealed.slice(0, -2)}${sealed.endsWith('AA') ? 'BB' : 'AA'}`;
  assert.throws(() => box.open(sealed, 'row 2'), /cannot be read/);
  assert.throws(() => createSecretBox(randomBytes(32)).open(sealed, 'row 1'), /cannot be read/);
  assert.throws(() => box.open(changed, 'row 1'), /cannot be read/);
  assert.throws(() => box.open('s1.', 'row 1'), /cannot be read/);
  assert.throws(() => box.open('plain', 'row 1'), /cannot be read/);
});

test('the key is made once, for its owner alone, and a damaged one is refused', async () => {
  await using directory = await makeTempDir('key');
  const path = directory.join('secrets.key');
  const key = readKeyFile(path);
  assert.equal(statSync(path).mode & 0o777, 0o600);
  assert.deepEqual(readKeyFile(path), key);
  writeFileSync(path, 'short');
  assert.throws(() => readKeyFile(path), /holds no key/);
});
