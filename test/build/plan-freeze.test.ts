import assert from 'node:assert/strict';
import { test } from 'node:test';
import { planFreeze } from '../../src/build/plan.ts';
import { digestOf } from '../../src/oci/digest.ts';
import { type Document, documentOf } from '../../src/oci/document.ts';
import { mediaTypes } from '../../src/oci/media-type.ts';
import { sifManifest } from '../../src/sif/oras.ts';

const digest = digestOf(Buffer.from('config'));
const config = { mediaType: mediaTypes.ociConfig, digest, size: 2 };
const manifest = { schemaVersion: 2, mediaType: mediaTypes.ociManifest, config, layers: [] };
const image = documentOf(Buffer.from(JSON.stringify(manifest)), mediaTypes.ociManifest);

const plan = (format: 'docker' | 'sif', repository = 'one', base: Document = image) =>
  planFreeze(
    { buildRepository: 'registry.test/frozen', format },
    { registry: 'registry.test', repository, base },
    {},
  );

test('a Singularity image tells what it was made from, so its key has the name in it', () => {
  const [one, other] = [plan('sif', 'one'), plan('sif', 'other')];
  assert.match(one.sif?.definition.text ?? '', /^from: registry\.test\/one@sha256:/m);
  assert.match(other.sif?.definition.text ?? '', /^from: registry\.test\/other@sha256:/m);
  assert.notEqual(one.target, other.target);
  assert.equal(plan('sif', 'one').target, one.target);
});

test('nothing of the name is in another image: its key is that of the digest', () => {
  assert.equal(plan('docker', 'one').target, plan('docker', 'other').target);
});

test('of an artifact no Singularity image is made', () => {
  const artifact = sifManifest({ digest, size: 1 }, 'x.sif');
  assert.throws(() => plan('sif', 'one', artifact), {
    message: /'containerImage': registry\.test\/one is no container image but an artifact/,
    kind: 'bad-request',
  });
});
