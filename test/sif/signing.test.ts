import assert from 'node:assert/strict';
import { generateKeyPairSync, type KeyPairKeyObjectResult } from 'node:crypto';
import { copyFile, open, writeFile } from 'node:fs/promises';
import { after, before, test } from 'node:test';
import { createSifSigner } from '../../src/images/sif/signing/signer.ts';
import { type Apptainer, openApptainer } from '../world/apptainer.ts';
import { convert } from './conversion.ts';
import { tarLayer } from './tar-file.ts';

let apptainer: Apptainer;

before(async () => {
  apptainer = await openApptainer();
});

after(async () => {
  await apptainer?.remove();
});

const inPem = ({ publicKey, privateKey }: KeyPairKeyObjectResult) => ({
  publicKey: publicKey.export({ type: 'spki', format: 'pem' }).toString(),
  privateKey: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
});
const layer = tarLayer([{ name: 'bin/x', content: 'x'.repeat(10_000) }]);

for (const [name, pair] of [
  ['Ed25519', inPem(generateKeyPairSync('ed25519'))],
  ['RSA', inPem(generateKeyPairSync('rsa', { modulusLength: 2048 }))],
] as const) {
  test(`apptainer verifies an image that is signed with a key of ${name}`, async () => {
    const { privateKey, publicKey } = pair;
    const key = apptainer.join(`${name}.pem`);
    await writeFile(key, publicKey);
    const other = apptainer.join(`${name}.other.pem`);
    await writeFile(other, inPem(generateKeyPairSync('ed25519')).publicKey);
    const signer = createSifSigner(privateKey);
    await using conversion = await convert([layer], { signer });
    await using again = await convert([layer], { signer });
    assert.equal(again.sif.digest, conversion.sif.digest);
    const verify = (file: string, by: string) => apptainer.run(['verify', '--key', by, file]);
    const good = await verify(conversion.sif.path, key);
    assert.equal(good.code, 0, good.stderr);
    assert.match(good.stdout + good.stderr, /Verified signature/);
    assert.notEqual((await verify(conversion.sif.path, other)).code, 0);
    const { squashfs } = await conversion.describe();
    for (const place of [(squashfs?.offset ?? 0) + 2000, 40, 33_000]) {
      const changed = apptainer.join(`${name}-${place}.sif`);
      await copyFile(conversion.sif.path, changed);
      await using file = await open(changed, 'r+');
      const { buffer } = await file.read(Buffer.alloc(1), 0, 1, place);
      await file.write(Buffer.of(buffer.readUInt8() ^ 1), 0, 1, place);
      await file.close();
      assert.notEqual((await verify(changed, key)).code, 0, `${place}`);
    }
  });
}

test('an unusable key is refused without being shown', () => {
  const curve = inPem(generateKeyPairSync('ec', { namedCurve: 'P-256' }));
  assert.throws(
    () => createSifSigner(curve.privateKey),
    /^Error: is a key of type ec: create an Ed25519 key/,
  );
  for (const pem of [curve.publicKey, 'secret words', '']) {
    assert.throws(
      () => createSifSigner(pem),
      error =>
        error instanceof Error &&
        error.message === 'is not a private key in PEM without a passphrase',
    );
  }
});
