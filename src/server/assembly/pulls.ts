import { hostedSubjects, referenceSubject } from '../../hosted/uploads/index.ts';
import { createLimiter } from '../../http/index.ts';
import {
  type CountHostedPull,
  countHostedPulls,
  createPullMeter,
  type ServedDeps,
} from '../../http/registry/index.ts';
import {
  createBlobFinder,
  createManifestFinder,
  createPullCounter,
  imageName,
  servedSubjects,
} from '../../pull/index.ts';
import type { Containers } from './containers.ts';
import type { RegistryAccess } from './registry-clients.ts';
import type { AppDeps, State } from './server-state.ts';

/** The parts that serve pulls of served names. */
export function createPulls(
  { config }: AppDeps,
  { content, usage, tally, rows }: State,
  { registry, modeOf, ownHost }: RegistryAccess,
  { documents, findImage, tokens, lentImages, blobParts, scans }: Containers,
): Omit<ServedDeps, 'auth' | 'prefix' | 'noteBlob' | 'notePull'> & {
  readonly meter: ReturnType<typeof createPullMeter>;
} {
  return {
    tokens: lentImages.withTokens(tokens),
    isLent: lentImages.has,
    registry,
    findImage: async request => lentImages.imageOf(request.token) ?? findImage(request),
    scanReferrers: scans?.referrers,
    findManifest: createManifestFinder(documents, registry),
    blobs: createBlobFinder({
      content,
      registry,
      ...blobParts,
      modeOf,
      ownHost,
      tally,
    }),
    meter: createPullMeter({
      counter: createPullCounter(),
      limiter: createLimiter('pulls'),
      rates: config.limits.pulls,
      usage,
      record(request) {
        rows.pulls.note(servedSubjects(request, ownHost));
        tally.add('pulled images', { image: imageName(request.image) });
      },
    }),
    trustedProxies: config.trustedProxies,
    rightLifeMs: config.rightLife,
  };
}

/** Returns the function that counts pulls of hosted images. */
export function createHostedPullCount(
  { rows, tally }: State,
  { ownHost }: RegistryAccess,
): CountHostedPull {
  return countHostedPulls({
    counter: createPullCounter(),
    record({ repository, digest, tag, isPart }) {
      if (isPart) {
        rows.pulls.note([referenceSubject(repository, digest)]);
        return;
      }
      rows.pulls.note(hostedSubjects(repository, digest, tag));
      tally.add('pulled images', { image: imageName({ registry: ownHost, repository }) });
    },
  });
}
