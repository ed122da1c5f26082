import assert from 'node:assert/strict';
import { test } from 'node:test';
import { planFreeze } from '../../src/builds/plan/plan-copies.ts';
import { digestOf } from '../../src/oci/digest.ts';
import { type Document, documentOf } from '../../src/oci/manifest.ts';
import { mediaTypes } from '../../src/oci/media-type.ts';

const digest = digestOf(Buffer.from('config'));
const config = { mediaType: mediaTypes.ociConfig, digest, size: 2 };
const manifest = { schemaVersion: 2, mediaType: mediaTypes.ociManifest, config, layers: [] };
const image = documentOf(Buffer.from(JSON.stringify(manifest)), mediaTypes.ociManifest);

const plan = (format: 'docker' | 'sif', repository = 'one', base: Document = image, tag?: string) =>
  planFreeze(
    { buildRepository: 'registry.test/frozen', format },
    { registry: 'registry.test', repository, tag, base },
    {},
  );

test('a Singularity image contains the name of its source, so its key includes the name', () => {
  const [one, other] = [plan('sif', 'one'), plan('sif', 'other')];
  assert.match(one.sif?.definition.text ?? '', /^from: registry\.test\/one@sha256:/m);
  assert.match(other.sif?.definition.text ?? '', /^from: registry\.test\/other@sha256:/m);
  assert.notEqual(one.target, other.target);
  assert.equal(plan('sif', 'one').target, one.target);
});

test('a Singularity image keeps the requested tag and reports its digest', () => {
  const [one, other] = [plan('sif', 'one', image, '1.0'), plan('sif', 'one', image, '1')];
  assert.equal(one.sif?.definition.text, 'bootstrap: docker\nfrom: registry.test/one:1.0\n\n');
  assert.deepEqual(one.sif?.definition.labels, {
    'org.opencontainers.image.base.name': 'registry.test/one:1.0',
    'org.opencontainers.image.base.digest': image.digest,
  });
  assert.equal(new Set([one.target, other.target, plan('sif').target]).size, 3);
});

test('other images do not contain the name: the key is that of the digest', () => {
  assert.equal(plan('docker', 'one').target, plan('docker', 'other').target);
});
