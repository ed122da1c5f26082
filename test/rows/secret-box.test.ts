import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { statSync, writeFileSync } from 'node:fs';
import { test } from 'node:test';
import { readKeyFile } from '../../src/storage/directory/private-files.ts';
import { createSecretBox } from '../../src/storage/rows/secret-box.ts';
import { makeTempDir } from '../world/temp-dir.ts';

test('a sealed secret can be opened, and differs each time it is sealed', () => {
  const box = createSecretBox(randomBytes(32));
  const [one, other] = [box.seal('s3cret ü', 'row 1'), box.seal('s3cret ü', 'row 1')];
  assert.notEqual(one, other);
  assert.equal(one.includes('s3cret'), false);
  assert.equal(box.open(one, 'row 1'), 's3cret ü');
});

test('a secret cannot be opened for another place, with another key, or after a change', () => {
  const box = createSecretBox(randomBytes(32));
  const sealed = box.seal('s3cret', 'row 1');
  const changed = `${sealed.slice(0, -2)}${sealed.endsWith('AA') ? 'BB' : 'AA'}`;
  assert.throws(() => box.open(sealed, 'row 2'), /cannot be read/);
  assert.throws(() => createSecretBox(randomBytes(32)).open(sealed, 'row 1'), /cannot be read/);
  assert.throws(() => box.open(changed, 'row 1'), /cannot be read/);
  assert.throws(() => box.open('s1.', 'row 1'), /cannot be read/);
  assert.throws(() => box.open('plain', 'row 1'), /cannot be read/);
});

test('a secret of an older key can be opened beside the new key, also without a key name', () => {
  const [key, newer] = [randomBytes(32), randomBytes(32)];
  const old = createSecretBox(key);
  const sealed = old.seal('s3cret', 'row 1');
  assert.ok(sealed.startsWith(old.prefix));
  // As earlier versions have written it.
  const unnamed = `s1.${sealed.split('.')[2]}`;
  assert.equal(old.open(unnamed, 'row 1'), 's3cret');
  const box = createSecretBox(newer, key);
  for (const text of [sealed, unnamed]) {
    assert.equal(box.open(text, 'row 1'), 's3cret');
    assert.throws(() => box.open(text, 'row 2'), /cannot be read/);
    assert.throws(() => createSecretBox(newer).open(text, 'row 1'), /cannot be read/);
  }
  const again = box.seal('s3cret', 'row 1');
  assert.ok(again.startsWith(box.prefix) && box.prefix !== old.prefix);
  assert.throws(() => old.open(again, 'row 1'), /cannot be read/);
});

test('the key is created once, for its owner only, and a damaged key is refused', async () => {
  await using directory = await makeTempDir('key');
  const path = directory.join('secrets.key');
  const key = readKeyFile(path);
  assert.equal(statSync(path).mode & 0o777, 0o600);
  assert.deepEqual(readKeyFile(path), key);
  writeFileSync(path, 'short');
  assert.throws(() => readKeyFile(path), /does not contain a key/);
});
