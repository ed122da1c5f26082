import { isUnwritable } from '../../../foundation/fault.ts';
import { createLayerProofs, createVerifyImage, type ProvedLayer } from '../../../images/index.ts';
import {
  createBlobCache,
  createBlobRelays,
  createRelayedBlobs,
  createTransfers,
} from '../../../pull/index.ts';
import { openWhole } from '../../../upstream/index.ts';
import type { AppDeps } from '../app-deps.ts';
import type { RegistryAccess } from '../registry-clients.ts';
import type { State } from '../server-state.ts';

/** Blobs of other registries: the copies that are kept here, and those that are passed on. */
export type BlobParts = ReturnType<typeof createBlobParts>;

export function createBlobParts(
  { config }: Pick<AppDeps, 'config'>,
  { content, cachedBlobs }: State,
  { registry }: RegistryAccess,
) {
  const transfers = createTransfers(content);
  return {
    cache: createBlobCache({ content, cachedBlobs, transfers, maxBytes: config.cacheBytes }),
    relayed: createRelayedBlobs({
      registry,
      relays: createBlobRelays(transfers, config.cacheBytes),
      stallMs: config.upstream.stallTimeout,
      trustMs: config.upstream.trust,
    }),
  };
}

/** Returns the function that verifies base images. What it reads is kept, so that builders get it from here. */
export function createVerifyBases(
  { config }: Pick<AppDeps, 'config'>,
  { content, rows }: State,
  { registry, ownHost }: RegistryAccess,
  { cache, relayed }: BlobParts,
) {
  const openLayer = async ({ access, layer, isOwn }: ProvedLayer, signal: AbortSignal) => {
    const { digest, size } = layer;
    if (isOwn) return content.open(digest, 0, size - 1);
    if (access.registry === ownHost) return openWhole(registry, access, layer, signal);
    try {
      const opening = relayed.opening({ access, digest, size });
      const reader = await cache.join(access, digest, opening, signal);
      return reader.read(0, reader.size - 1);
    } catch (error) {
      // A build continues if no copy can be kept.
      if (!isUnwritable(error)) throw error;
      return openWhole(registry, access, layer, signal);
    }
  };
  const lifeMs = config.rightLife;
  return createVerifyImage(
    createLayerProofs({ registry, store: rows.verifiedLayers, openLayer, lifeMs }),
  );
}
