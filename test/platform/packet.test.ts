import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { test } from 'node:test';
import fc from 'fast-check';
import { openPacket } from '../../src/platform/pairing/pairing-keys.ts';
import { sealPacket } from './seal-packet.ts';

const generate = () => generateKeyPairSync('rsa', { modulusLength: 2048 });
const { publicKey, privateKey } = generate();
const spki = publicKey.export({ type: 'spki', format: 'der' }).toString('base64');
const refusal = { message: 'The packet is malformed, or was encrypted for another key' };

test('any text is encrypted and decrypted unchanged', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme', maxLength: 5000 }), text => {
      assert.equal(openPacket(sealPacket(text, spki), privateKey), text);
    }),
    { numRuns: 50 },
  );
});

test('a packet for another key is refused, always with the same message', () => {
  const other = generate().privateKey;
  for (let tries = 0; tries < 20; tries += 1) {
    assert.throws(() => openPacket(sealPacket('{"password":"secret"}', spki), other), refusal);
  }
});

test('text that is not a packet is refused', () => {
  const [version = '', kind = '', key = '', data = ''] = sealPacket('text', spki).split('\\');
  const swapped = sealPacket('other', spki).split('\\')[3] ?? '';
  for (const parts of [
    [],
    [''],
    ['{"password":"x"}'],
    [version],
    [version, kind, key],
    [version, kind, key, data, 'more'],
    ['2', kind, key, data],
    [version, 'p', key, data],
    [version, kind, '', data],
    [version, kind, key, ''],
    [version, kind, '!!!', data],
    [version, kind, key, '!!!'],
    [version, kind, key.slice(4), data],
    [version, kind, key, data.slice(4)],
    [version, kind, key, swapped],
    [version, kind, data, key],
  ]) {
    assert.throws(() => openPacket(parts.join('\\'), privateKey), refusal, parts.join(' '));
  }
  assert.throws(() => openPacket(sealPacket('text', spki, 32), privateKey), refusal);
});
