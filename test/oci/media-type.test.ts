import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  bareMediaType,
  isArtifactConfigType,
  isElsewhere,
  isImageConfigType,
  isIndexType,
  isLayerType,
  isManifestLikeType,
  isManifestType,
  isSchema1Type,
  manifestAccept,
  mediaTypes,
} from '../../src/oci/media-type.ts';

const index = 'application/vnd.oci.image.index.v1+json';
const manifest = 'application/vnd.oci.image.manifest.v1+json';
const config = 'application/vnd.oci.image.config.v1+json';
const empty = 'application/vnd.oci.empty.v1+json';
const dockerIndex = 'application/vnd.docker.distribution.manifest.list.v2+json';
const dockerManifest = 'application/vnd.docker.distribution.manifest.v2+json';
const dockerConfig = 'application/vnd.docker.container.image.v1+json';
const schema1 = 'application/vnd.docker.distribution.manifest.v1+json';
const signedSchema1 = 'application/vnd.docker.distribution.manifest.v1+prettyjws';
const all = [
  ...[index, manifest, config, empty, dockerIndex, dockerManifest, dockerConfig, schema1],
  signedSchema1,
];

test('each kind of document has its media types, and no other', () => {
  const holds = (check: (type: string) => boolean) => all.filter(check);
  assert.deepEqual(holds(isIndexType), [index, dockerIndex]);
  assert.deepEqual(holds(isManifestType), [manifest, dockerManifest]);
  assert.deepEqual(holds(isSchema1Type), [schema1, signedSchema1]);
  assert.deepEqual(holds(isImageConfigType), [config, dockerConfig]);
  assert.deepEqual(holds(isArtifactConfigType), [empty]);
  assert.deepEqual(holds(isManifestLikeType), all);
  assert.ok(isArtifactConfigType('application/vnd.docker.plugin.v1+json'));
  assert.ok(!isArtifactConfigType('x application/vnd.docker.plugin.v1+json'));
  for (const type of ['text/html', `x${manifest}`, `${manifest}; charset=utf-8`]) {
    assert.ok(!isManifestLikeType(type), type);
  }
});

test('a request for a manifest accepts every type, and prefers those that are known', () => {
  const manifests = [index, manifest, dockerIndex, dockerManifest, signedSchema1, schema1];
  assert.equal(manifestAccept, [...manifests, '*/*;q=0.1'].join(', '));
});

test('layers and unknown content have the types of the specifications', () => {
  const { ociLayerGzip, dockerLayerGzip, octetStream } = mediaTypes;
  assert.equal(ociLayerGzip, 'application/vnd.oci.image.layer.v1.tar+gzip');
  assert.equal(dockerLayerGzip, 'application/vnd.docker.image.rootfs.diff.tar.gzip');
  assert.equal(octetStream, 'application/octet-stream');
});

test('content is elsewhere where its descriptor has addresses, or its type says so', () => {
  const layer = 'application/vnd.oci.image.layer.v1.tar+gzip';
  const foreign = [
    'application/vnd.oci.image.layer.nondistributable.v1.tar+gzip',
    'application/vnd.docker.image.rootfs.foreign.diff.tar.gzip',
  ];
  for (const mediaType of foreign) assert.ok(isElsewhere({ mediaType }), mediaType);
  assert.ok(isElsewhere({ mediaType: layer, urls: ['https://example.com/layer'] }));
  for (const urls of [undefined, null, []]) assert.ok(!isElsewhere({ mediaType: layer, urls }));
  assert.ok(!isElsewhere({ mediaType: `x-${foreign[0]}` }));
  for (const mediaType of [layer, ...foreign]) assert.ok(isLayerType(mediaType), mediaType);
  assert.ok(isLayerType('application/vnd.docker.container.image.rootfs.diff+x-gtar'));
  for (const mediaType of [config, `x-${layer}`]) assert.ok(!isLayerType(mediaType), mediaType);
});

test('a media type is read without its parameters', () => {
  assert.equal(bareMediaType(' Application/JSON ; charset=utf-8; a=b'), 'application/json');
  for (const none of [undefined, '', ' ', ';charset=utf-8'])
    assert.equal(bareMediaType(none), undefined);
});
