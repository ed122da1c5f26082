import { baseLayer, noteLayer } from './base.ts';
import { bytesOf, contentOf, describe, mediaTypes, sha256 } from './content.ts';
import { type Family, imageOf } from './image.ts';
import { type Layer, layerOf } from './layer.ts';

/** Images that are allowed but rare, and images that are wrong. */
export const odd: Family = {
  /** A layer that is to be fetched from somewhere else, and is not there. */
  foreign: async () => {
    const layers = [await baseLayer(), await noteLayer('foreign')];
    const urls = ['http://127.0.0.1:9/foreign.tar.gz'];
    const image = imageOf({
      kind: 'docker',
      layers,
      manifest: usual => ({
        ...usual,
        layers: layers.map(({ content }, at) =>
          at === 0
            ? describe({ ...content, mediaType: mediaTypes.dockerLayer })
            : describe({ ...content, mediaType: mediaTypes.dockerForeignLayer }, { urls }),
        ),
      }),
    });
    return { ...image, blobs: image.blobs.slice(0, 2) };
  },
  /** Descriptors that carry the bytes they describe. */
  data: async () => {
    const plain = imageOf({ layers: [await baseLayer()] });
    const [config] = plain.blobs;
    if (config === undefined) return plain;
    const data = bytesOf(config).toString('base64');
    return imageOf({
      layers: [await baseLayer()],
      manifest: usual => ({ ...usual, config: describe(config, { data }) }),
    });
  },
  /** 3.9 MB of manifest; registries refuse more than 4 MiB. */
  'large-manifest': async () => {
    const numbers = Array.from({ length: 390 }, (_, at) => [`org.example.note-${at}`, at] as const);
    const annotations = Object.fromEntries(
      numbers.map(([name, at]) => [name, String.fromCharCode(97 + (at % 26)).repeat(10_000)]),
    );
    return imageOf({
      layers: [await baseLayer()],
      manifest: usual => ({ ...usual, annotations }),
    });
  },
  /** The manifest gives the second layer one byte more than it has. */
  'wrong-size': async () => {
    const layers = [await baseLayer(), await noteLayer('wrong-size')];
    return imageOf({
      layers,
      manifest: usual => ({
        ...usual,
        layers: layers.map(({ content }, at) => describe({ ...content, size: content.size + at })),
      }),
    });
  },
  /** The configuration names another diff id than the second layer has. */
  'wrong-diffid': async () => {
    const wrong: Layer = { ...(await noteLayer('wrong-diffid')), diffId: sha256('other') };
    return imageOf({ layers: [await baseLayer(), wrong] });
  },
  /** A layer that the registry does not have any more. */
  'missing-layer': async () => {
    const missing = await noteLayer('missing-layer');
    return { ...imageOf({ layers: [await baseLayer(), missing] }), gone: [missing.content] };
  },
  /** The second layer is a gzip of nothing that tar could read. */
  'not-tar': async () => {
    const fine = await layerOf([]);
    const content = contentOf(fine.content.mediaType, 'neither gzip nor tar');
    return imageOf({ layers: [await baseLayer(), { content, diffId: content.digest }] });
  },
};
