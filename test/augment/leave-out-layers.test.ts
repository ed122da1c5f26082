/** Images without some of their layers. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { leaveOutLayers } from '../../src/images/augment/leave-out-layers.ts';
import { digestOf } from '../../src/oci/digest.ts';
import { documentOf } from '../../src/oci/index.ts';
import { mediaTypes } from '../../src/oci/media-type.ts';

const layers = ['a', 'b', 'c'].map(text => ({
  mediaType: 'application/vnd.oci.image.layer.v1.tar+gzip',
  digest: digestOf(Buffer.from(text)),
  size: 1,
}));
const json = (value: object, type: string) => documentOf(Buffer.from(JSON.stringify(value)), type);
const configWith = (diffIds: unknown) =>
  json(
    { os: 'linux', rootfs: { type: 'layers', diff_ids: diffIds }, history: [{}, {}, {}] },
    mediaTypes.ociConfig,
  );
const imageWith = (config: ReturnType<typeof configWith>) => {
  const { digest, mediaType, bytes } = config;
  const about = { mediaType, digest, size: bytes.length };
  const body = { schemaVersion: 2, mediaType: mediaTypes.ociManifest, config: about, layers };
  return { config, manifest: json(body, mediaTypes.ociManifest) };
};

suite('images without some of their layers', () => {
  const image = imageWith(configWith(['1', '2', '3']));

  test('manifest and config have the others, in their order', () => {
    const left = leaveOutLayers(image, digest => digest === layers[1]?.digest);
    const config = JSON.parse(left?.config.bytes.toString() ?? '');
    assert.deepEqual(config, { os: 'linux', rootfs: { type: 'layers', diff_ids: ['1', '3'] } });
    const manifest = JSON.parse(left?.manifest.bytes.toString() ?? '');
    assert.deepEqual(manifest.layers, [layers[0], layers[2]]);
    assert.equal(manifest.config.digest, left?.config.digest);
    assert.equal(manifest.config.size, left?.config.bytes.length);
  });

  test('an image stays whole without a layer to leave out or to leave, and with a config that does not fit', () => {
    assert.equal(
      leaveOutLayers(image, () => false),
      undefined,
    );
    assert.equal(
      leaveOutLayers(image, () => true),
      undefined,
    );
    for (const diffIds of [['1'], 'text', undefined]) {
      const first = layers[0]?.digest;
      assert.equal(
        leaveOutLayers(imageWith(configWith(diffIds)), one => one === first),
        undefined,
      );
    }
  });
});
