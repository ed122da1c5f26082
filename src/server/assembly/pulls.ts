import { hostedSubjects, referenceSubject } from '../../hosted/listings/pulled-names.ts';
import { createLimiter } from '../../http/limits/limiter.ts';
import { type CountHostedPull, countHostedPulls } from '../../http/registry/hosted/hosted-pulls.ts';
import { createPullMeter } from '../../http/registry/pull-meter.ts';
import type { ServedDeps } from '../../http/registry/served-routes.ts';
import { createBlobCache } from '../../pull/blobs/blob-cache.ts';
import { createBlobRelays } from '../../pull/blobs/blob-relays.ts';
import { createBlobFinder } from '../../pull/blobs/pulled-blob.ts';
import { createRelayedBlobs } from '../../pull/blobs/relayed-blobs.ts';
import { createTransfers } from '../../pull/blobs/transfers.ts';
import { createPullCounter } from '../../pull/pull-counter.ts';
import { imageName, servedSubjects } from '../../pull/pull-subject.ts';
import { createManifestFinder } from '../../pull/pulled-manifest.ts';
import type { AppDeps } from './app-deps.ts';
import type { Containers } from './containers.ts';
import type { RegistryAccess } from './registry-clients.ts';
import type { State } from './server-state.ts';

/** The parts that serve pulls of served names. */
export function createPulls(
  { config }: AppDeps,
  { content, cachedBlobs, usage, tally, rows }: State,
  { registry, modeOf, ownHost }: RegistryAccess,
  { documents, findImage, tokens }: Containers,
): Omit<ServedDeps, 'guard' | 'prefix' | 'noteBlob'> {
  const transfers = createTransfers(content);
  return {
    tokens,
    registry,
    findImage,
    findManifest: createManifestFinder(documents, registry),
    blobs: createBlobFinder({
      content,
      registry,
      cache: createBlobCache({
        ...{ content, cachedBlobs, transfers },
        maxBytes: config.cacheBytes,
      }),
      relayed: createRelayedBlobs({
        registry,
        relays: createBlobRelays(transfers, config.cacheBytes),
        stallMs: config.upstream.stallTimeout,
        trustMs: config.upstream.trust,
      }),
      ...{ modeOf, ownHost, tally },
    }),
    meter: createPullMeter({
      counter: createPullCounter(),
      limiter: createLimiter('pulls'),
      rates: config.limits.pulls,
      usage,
      record(request) {
        rows.pulls.note(servedSubjects(request, ownHost));
        tally.add('pulled images', imageName(request.image));
      },
    }),
    trustedProxies: config.trustedProxies,
    rightLifeMs: config.rightLife,
  };
}

/** Returns the function that counts pulls of hosted images. */
export function createHostedPullCount(
  { config }: AppDeps,
  { rows, tally }: State,
  { ownHost }: RegistryAccess,
): CountHostedPull {
  return countHostedPulls({
    counter: createPullCounter(),
    trustedProxies: config.trustedProxies,
    record({ repository, digest, tag, isPart }) {
      if (isPart) {
        rows.pulls.note([referenceSubject(repository, digest)]);
        return;
      }
      rows.pulls.note(hostedSubjects(repository, digest, tag));
      tally.add('pulled images', imageName({ registry: ownHost, repository }));
    },
  });
}
