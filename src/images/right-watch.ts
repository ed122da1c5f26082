import { boundedCache } from '../foundation/bounded-cache.ts';
import { Fault } from '../foundation/fault.ts';
import { type Digest, isDigest } from '../oci/digest.ts';
import { mayBeImage, parseManifest } from '../oci/index.ts';
import { isIndexType } from '../oci/media-type.ts';
import { credentialKey } from '../upstream/auth/index.ts';
import { type Access, findManifest, type RegistryClient } from '../upstream/index.ts';
import { deepestIndex } from './documents.ts';

/**
 * Checks whether registries still show images to the callers that get stored content of them. Asks the registry with
 * the current credentials of the caller. Identical requests share one response for a while.
 */
export interface RightWatch {
  /** Notes that a registry has just shown an image. */
  note(access: Access, reference: string): void;
  /**
   * Returns the time (ms, of `performance.now`) until which the right to an image counts as valid. Throws a
   * {@link Fault}: 403 if the registry no longer shows the image; the registry's failure if it does not answer and no
   * earlier response proves the right of the caller.
   *
   * @param isPublic the registry has shown the image without credentials before; this counts while it does not answer
   */
  check(access: Access, reference: string, isPublic: boolean): Promise<number>;
}

export interface RightWatchDeps {
  readonly registry: Pick<RegistryClient, 'headManifest' | 'getManifest' | 'getJson'>;
  /** The registry of the hosted repositories. What is deleted there is no longer shown to anybody. */
  readonly ownHost: string;
  /** How long a response is valid, ms. */
  readonly lifeMs: number;
  /** How long the last response of a registry stays valid while the registry does not answer, ms. */
  readonly graceMs: number;
  readonly now?: () => number;
}

interface Known {
  shownAt: number;
  /** Time when the last request to the registry failed. */
  failedAt: number;
  failure: unknown;
  asking: Promise<void> | undefined;
}

/** How long the last response of a registry or platform is valid while it does not answer, ms: the same at every replica. */
export const rightGraceMs = 10 * 60_000;

const keptRights = 50_000;
// Clients give up after 30 s without a response, and this check is only the first part of a request.
const longestAskMs = 10_000;
const never = Number.NEGATIVE_INFINITY;

export function createRightWatch(deps: RightWatchDeps): RightWatch {
  const { lifeMs, graceMs, now = () => performance.now() } = deps;
  const known = boundedCache<string, Known>(keptRights);

  const entryOf = (access: Access, reference: string): Known => {
    const key = `${access.registry} ${access.repository} ${reference} ${credentialKey(access.credentials)}`;
    const entry = known.get(key) ?? {
      shownAt: never,
      failedAt: never,
      failure: undefined,
      asking: undefined,
    };
    known.set(key, entry);
    return entry;
  };

  /** Asks the registry once for all waiting callers; never rejects. */
  const ask = (entry: Known, access: Access, reference: string): Promise<void> => {
    entry.asking ??= (async () => {
      const asked = now();
      try {
        await show(deps, access, reference, AbortSignal.timeout(longestAskMs));
        Object.assign(entry, { shownAt: asked, failedAt: never });
      } catch (error) {
        Object.assign(entry, { failedAt: now(), failure: error });
        // Earlier responses are no longer valid.
        if (isRefusal(error)) entry.shownAt = never;
      } finally {
        entry.asking = undefined;
      }
    })();
    return entry.asking;
  };

  return {
    note(access, reference) {
      entryOf(access, reference).shownAt = now();
    },

    async check(access, reference, isPublic) {
      const entry = entryOf(access, reference);
      const isFresh = () => now() - entry.shownAt < lifeMs;
      const hasJustFailed = () => now() - entry.failedAt < lifeMs / 2;
      if (isFresh()) {
        // Ask before the response expires, so that nobody waits for an image that many callers pull.
        const isAging = now() - entry.shownAt > lifeMs / 2;
        if (isAging && !hasJustFailed()) void ask(entry, access, reference);
        return entry.shownAt + lifeMs;
      }
      const isKnownDown = hasJustFailed() && !isRefusal(entry.failure);
      if (isKnownDown) void ask(entry, access, reference);
      else await ask(entry, access, reference);
      const { failure, failedAt } = entry;
      if (failedAt === never) return entry.shownAt + lifeMs;
      const isBelieved = isPublic || now() - entry.shownAt < graceMs;
      if (isRefusal(failure) || !isBelieved) throw failure;
      return now() + lifeMs / 2;
    },
  };
}

type ManifestClient = Pick<RegistryClient, 'headManifest' | 'getManifest'>;

/** Resolves when the registry shows the image, or at least its repository: rights apply to repositories. */
async function show(
  { registry, ownHost }: Pick<RightWatchDeps, 'registry' | 'ownHost'>,
  access: Access,
  reference: string,
  signal: AbortSignal,
): Promise<void> {
  const client: ManifestClient = {
    headManifest: (of, name) => registry.headManifest(of, name, signal),
    getManifest: (of, name) => registry.getManifest(of, name, signal),
  };
  try {
    if (access.registry === ownHost && isDigest(reference)) {
      return await requireWhole(client, access, reference, deepestIndex);
    }
    await findManifest(client, access, reference).catch(async error => {
      if (!(error instanceof Fault) || error.kind !== 'manifest-unknown') throw error;
      // A name outlives the tag that it was made from. Some registries also answer 404 for a missing right.
      await registry.getJson(access, 'tags/list', '?n=1', signal);
    });
  } catch (error) {
    throw isRefusal(error) ? ended(access, reference, error) : error;
  }
}

/**
 * Requires a hosted image with all its images. A hosted index was pushed with them, so that each one that is missing was
 * deleted, by somebody who wants nobody to pull it.
 */
async function requireWhole(
  client: ManifestClient,
  access: Access,
  digest: Digest,
  levels: number,
): Promise<void> {
  const { mediaType } = await findManifest(client, access, digest);
  if (levels === 0 || !isIndexType(mediaType)) return;
  const index = parseManifest(await client.getManifest(access, digest));
  if (index.kind !== 'index') return;
  for (const entry of index.manifests.filter(mayBeImage)) {
    await requireWhole(client, access, entry.digest, levels - 1);
  }
}

/** True when the registry has answered and refused. */
function isRefusal(error: unknown): boolean {
  return error instanceof Fault && error.status < 500 && error.kind !== 'too-many-requests';
}

function ended({ registry, repository }: Access, reference: string, cause: unknown): Fault {
  const name = `${repository}${isDigest(reference) ? '@' : ':'}${reference}`;
  return new Fault(
    'denied',
    `The registry ${registry} no longer shows ${name} to the caller of this container request: the image was removed, or the caller has lost the right to it. Make a new container request with credentials that may pull it`,
    { phase: 'credentials', cause },
  );
}
