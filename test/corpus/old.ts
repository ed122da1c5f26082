import { baseLayer, noteLayer } from './base.ts';
import { type Content, describe } from './content.ts';
import { type Family, type Image, imageOf, type Kind } from './image.ts';

/** Images of early Docker versions and of other tools: their configs have other types than today's, or none. */
export const old: Family = {
  /** The shape of the early images of Docker Hub, such as python 3.5. */
  'octet-stream': () => retypedConfig('docker', 'application/octet-stream'),
  json: () => retypedConfig('docker', 'application/json'),
  html: () => retypedConfig('docker', 'text/html'),
  unknown: () => retypedConfig('oci', 'application/vnd.example.config.v1+json'),
  /** Descriptors without a type. */
  untyped: () => retypedConfig('oci', undefined),
};

async function retypedConfig(kind: Kind, mediaType: string | undefined): Promise<Image> {
  const layers = [await baseLayer(), await noteLayer(`old-${mediaType ?? 'untyped'}`)];
  const configOf = (config: Content) => ({ ...describe(config), mediaType });
  const plain = imageOf({ kind, layers });
  const [config] = plain.blobs;
  if (config === undefined) return plain;
  return imageOf({ kind, layers, manifest: usual => ({ ...usual, config: configOf(config) }) });
}
