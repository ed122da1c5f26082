import { boundedCache } from '../foundation/bounded-cache.ts';
import { Fault } from '../foundation/fault.ts';
import type { Descriptor } from '../oci/index.ts';
import { parseReference, type Reference } from '../oci/naming.ts';
import type { SealedGrant } from '../platform/index.ts';
import type { ExpiredBuild, HostedImage, HostedSums } from '../storage/rows/index.ts';
import { credentialKey } from '../upstream/auth/index.ts';
import {
  type Access,
  findManifest,
  type PushClient,
  pushingTo,
  type RegistryClient,
} from '../upstream/index.ts';
import { type BuildPlaces, frozenPlaces } from './plan/plan.ts';
import type { RightsOf } from './solve/build-rights.ts';

/** The repositories that images are pushed to. Images are named `registry/repository:tag`. */
export interface TargetRepository {
  /** Returns what the name refers to, as the owner of the grant sees it; undefined for a name without an image. */
  find(
    target: string,
    grant: SealedGrant | undefined,
  ): Promise<Pick<Descriptor, 'digest' | 'mediaType'> | undefined>;
  /** Throws a {@link Fault} where the image cannot be pushed. */
  requirePush(target: string, grant: SealedGrant | undefined): Promise<void>;
  /** Throws a {@link Fault} (507) where builds without a login fill the repository. */
  requireAnonymousRoom(target: string): Promise<void>;
  /** Returns the image that is removed with its build; undefined for an image that stays. */
  removedWith(build: ExpiredBuild): HostedImage | undefined;
}

export interface TargetRepositoryDeps {
  readonly registry: RegistryClient;
  readonly pusher: PushClient;
  readonly rightsOf: RightsOf;
  readonly ownHost: string;
  readonly places: BuildPlaces;
  /** Bytes of a hosted repository and of those below it. */
  readonly hostedBytes: HostedSums['bytesBelow'];
  /** Bytes that builds without a login may fill; undefined for no limit. */
  readonly maxAnonymousBytes: number | undefined;
}

/** How long a repository that accepted a push counts as one that accepts pushes. */
const pushableMs = 60_000;

export function createTargetRepository(deps: TargetRepositoryDeps): TargetRepository {
  const { registry, pusher, rightsOf, ownHost, places, maxAnonymousBytes } = deps;
  const frozen = frozenPlaces(places);
  // A pipeline requests many images in one repository.
  const pushable = boundedCache<string, true>(1000, { ttl: pushableMs });

  const checkPush = async (access: Access): Promise<void> => {
    const key = `${access.registry} ${access.repository} ${credentialKey(access.credentials)}`;
    if (pushable.has(key)) return;
    await pusher.check(pushingTo(access));
    pushable.set(key, true);
  };

  return {
    async find(target, grant) {
      const image = parseReference(target);
      const access = await rightsOf(grant).access(image);
      try {
        return await findManifest(registry, access, image.tag ?? 'latest');
      } catch (error) {
        if (!(error instanceof Fault)) throw error;
        if (error.kind === 'manifest-unknown') return undefined;
        if (error.kind !== 'denied') throw error;
        // Some registries deny every read of a repository that does not exist yet. A push creates it.
        const mayPush = await checkPush(access).then(
          () => true,
          () => false,
        );
        if (mayPush) return undefined;
        throw error;
      }
    },

    async requirePush(target, grant) {
      await checkPush(await rightsOf(grant).access(parseReference(target)));
    },

    async requireAnonymousRoom(target) {
      const image = parseReference(target);
      if (maxAnonymousBytes === undefined || image.registry !== ownHost) return;
      // A name strategy can give each image its own repository below the requested one.
      const place = placeOf(image, [places.repository, ...frozen]);
      const bytes = await deps.hostedBytes(place ?? image.repository);
      if (bytes >= maxAnonymousBytes)
        throw anonymousRoomFull(place ?? image.repository, maxAnonymousBytes);
    },

    removedWith({ target, digest, isTrusted }) {
      const image = parseReference(target);
      const { repository, tag = 'latest' } = image;
      // Without an access token, an image is either in the repository for builds, or frozen.
      const isFrozen = placeOf(image, frozen) !== undefined;
      const stays = digest === null || isTrusted || image.registry !== ownHost || isFrozen;
      return stays ? undefined : { repository, tag, digest };
    },
  };
}

/** Returns the path of the first place that the image is in or below. */
function placeOf(
  { registry, repository }: Reference,
  places: readonly string[],
): string | undefined {
  return places
    .map(parseReference)
    .find(
      place => place.registry === registry && `${repository}/`.startsWith(`${place.repository}/`),
    )?.repository;
}

function anonymousRoomFull(repository: string, most: number): Fault {
  return new Fault(
    'storage-full',
    `The repository ${repository} of this server holds ${most} bytes, which is the limit for requests without a login: log in, set 'buildRepository' to your own repository, or ask the operator to raise anonymous.maxBuildBytes`,
    { phase: 'limit', limit: 'builds without a login on the disk', retryAfterSeconds: 3600 },
  );
}
