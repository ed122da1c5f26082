import { createHash } from 'node:crypto';
import type { Random } from '../fuzz/random.ts';
import { manifestOf } from '../hosted/push-client.ts';

/** An image to push. No two images have the same manifest; many have the same layer. */
export interface StormImage {
  readonly config: Buffer;
  readonly layer: Buffer;
  readonly manifest: Buffer;
}

// Replicas send blobs of this size themselves.
const layerBytes = 300_000;
// The server sends it to the object store in two parts.
const largeLayerBytes = 9 * 1024 ** 2;
const usualLayers = 6;
const largeOnceIn = 30;

/** Returns bytes that are the same for the same text. */
export function bytesOf(text: string, length: number): Buffer {
  return createHash('shake256', { outputLength: length }).update(text).digest();
}

/** @param name unique among all images of a storm */
export function imageOf(name: string, random: Random): StormImage {
  const layer = random.once(largeOnceIn)
    ? bytesOf(`large layer ${random.int(2)}`, largeLayerBytes)
    : bytesOf(`layer ${random.int(usualLayers)}`, layerBytes);
  const config = Buffer.from(JSON.stringify({ architecture: 'amd64', os: 'linux', author: name }));
  return { config, layer, manifest: manifestOf(config, [layer]) };
}
