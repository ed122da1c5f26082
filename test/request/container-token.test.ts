import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isRepository } from '../../src/oci/reference.ts';
import {
  createToken,
  hashToken,
  isNameId,
  isToken,
  nameIdOf,
  nameIdOfToken,
  tokenLabel,
  tokenLength,
} from '../../src/request/tokens/container-token.ts';

test('tokens are 160 random bits as lower-case letters and digits', () => {
  const tokens = Array.from({ length: 5000 }, createToken);
  assert.equal(new Set(tokens).size, tokens.length);
  for (const token of tokens) {
    assert.match(token, /^[a-z2-7]{32}$/);
    assert.ok(isToken(token));
    assert.ok(isRepository(`ct/${token}/team/app`));
  }
  // Each place takes each of the 32 letters about as often: none is stuck or left out.
  for (let place = 0; place < 32; place += 1) {
    const counts = new Map<string, number>();
    for (const token of tokens) {
      const letter = token[place] ?? '';
      counts.set(letter, (counts.get(letter) ?? 0) + 1);
    }
    assert.equal(counts.size, 32, `place ${place}`);
    for (const count of counts.values()) assert.ok(count > 70 && count < 260, `${count}`);
  }
});

test('texts that are not tokens', () => {
  for (const text of [
    '',
    'a',
    'A'.repeat(32),
    '1'.repeat(32),
    `${'a'.repeat(32)}\n`,
    'a'.repeat(33),
  ]) {
    assert.ok(!isToken(text), text);
  }
});

test('neither the hash nor the label reveals the token', () => {
  const token = createToken();
  assert.equal(hashToken(token).length, 32);
  assert.match(tokenLabel(token), /^[0-9a-f]{12}$/);
  assert.equal(tokenLabel(token), tokenLabel(token));
  assert.notEqual(tokenLabel(token), tokenLabel(createToken()));
});

test('the id of a name is the hash of its token in 64 lower-case hex digits', () => {
  const token = createToken();
  assert.equal(token.length, tokenLength);
  const id = nameIdOf(hashToken(token));
  assert.equal(id, hashToken(token).toString('hex'));
  assert.equal(id, nameIdOfToken(token));
  assert.ok(isNameId(id));
  for (const text of ['', `${id}0`, `0${id}`, `${id}\n`, id.slice(1), 'A'.repeat(64), token]) {
    assert.ok(!isNameId(text), text);
  }
});
