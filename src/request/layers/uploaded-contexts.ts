import { type ContextContent, openUploadedContext } from '../../builds/index.ts';
import type { SentContext } from '../../builds/plan/index.ts';
import { hashTar } from '../../contexts/hash-tar.ts';
import { boundedCache } from '../../foundation/bounded-cache.ts';
import { Fault } from '../../foundation/fault.ts';
import { Semaphore } from '../../foundation/semaphore.ts';
import type { HostedBlobs, HostedManifests, RegistryTokens } from '../../hosted/index.ts';
import { contextRepository } from '../../hosted/uploads/index.ts';
import type { Digest } from '../../oci/digest.ts';
import { parseReference } from '../../oci/naming.ts';
import type { ContentStore } from '../../storage/content/index.ts';
import { createFlowHash } from '../../storage/hashing/index.ts';
import type { AnonymousShare } from '../../storage/rows/index.ts';
import type { Caller, SubmittedLayer } from '../container-request.ts';
import type { LayerIntake } from './layer-intake.ts';
import type { LayerCaller } from './one-intake.ts';

/** Scheme of locations that name an uploaded build context. */
const uploadedScheme = /^oci:\/\//i;

/** A build context that is in the content store. */
interface TakenContext {
  /** Digest of its manifest. */
  readonly digest: Digest;
  /** Digest of the tar file that the request would contain instead. */
  readonly tarDigest: Digest;
}

interface UploadedContexts {
  /**
   * Finds the build context that a caller has uploaded, and verifies all of it. Throws a {@link Fault}: 400 describes
   * the error in it.
   */
  take(
    context: SubmittedLayer,
    caller: Pick<Caller, 'network' | 'user'> & { readonly signal?: AbortSignal | undefined },
  ): Promise<TakenContext>;
}

interface UploadedContextsDeps {
  readonly content: ContentStore;
  readonly manifests: Pick<HostedManifests, 'head'>;
  readonly blobs: Pick<HostedBlobs, 'size'>;
  readonly ownHost: string;
}

// Contexts are hashed as fast as the disk reads: more concurrent ones would only wait for each other.
const hashedAtOnce = 2;
const mostWaiting = 100;

export function createUploadedContexts(deps: UploadedContextsDeps): UploadedContexts {
  const { content, manifests, blobs, ownHost } = deps;
  const known = boundedCache<Digest, Digest>(10_000);
  // Callers without a login do not delay those with one.
  const queues = { users: hashQueue(), anonymous: hashQueue() };

  /** Returns the manifest that a location names. It must be in the caller's own repository. */
  const manifestAt = async (
    location: string,
    caller: Pick<Caller, 'network' | 'user'>,
  ): Promise<{ readonly repository: string; readonly digest: Digest }> => {
    const { registry, repository, digest } = parseReference(location.replace(uploadedScheme, ''));
    if (digest === undefined) throw malformedContext('names a build context without its digest');
    if (registry !== ownHost || repository !== contextRepository(caller)) {
      throw malformedContext(
        `is not in your repository for build contexts, ${ownHost}/${contextRepository(caller)}: upload it with the access token of the request, or without one if the request has none`,
      );
    }
    try {
      return { repository, digest: (await manifests.head(repository, digest)).digest };
    } catch (error) {
      throw error instanceof Fault ? contextExpired() : error;
    }
  };

  /**
   * Returns the content of a repository. The manifest may name blobs that the repository lacks, for instance with addresses
   * elsewhere. The content store has them if any caller has uploaded them, or an image has them.
   */
  const contentOf = (repository: string): ContextContent => ({
    read: digest => content.read(digest),
    open: (...range) => content.open(...range),
    async size(digest) {
      try {
        return await blobs.size(repository, digest);
      } catch (error) {
        if (error instanceof Fault && error.kind === 'blob-unknown') return undefined;
        throw error;
      }
    },
  });

  const measure = async (
    { repository, digest }: Awaited<ReturnType<typeof manifestAt>>,
    signal: AbortSignal | undefined,
  ): Promise<Digest> => {
    const context = await openUploadedContext(contentOf(repository), digest);
    // From here on, no cleanup removes it before the build is stored.
    for (const part of context.parts) {
      if (!(await content.claim(part))) throw contextExpired();
    }
    const before = known.get(digest);
    if (before !== undefined) return before;
    const hash = createFlowHash('sha256');
    try {
      await hashTar(context.entries, context.read(), piece => {
        signal?.throwIfAborted();
        return hash.update(piece);
      });
    } catch (error) {
      hash.abort();
      throw error;
    }
    const tarDigest = `sha256:${await hash.digest()}` as Digest;
    known.set(digest, tarDigest);
    return tarDigest;
  };

  return {
    async take(context, caller) {
      const { location, gzipDigest, gzipSize, tarDigest: claimed } = context;
      if (gzipDigest !== undefined || gzipSize !== undefined) {
        throw malformedContext("is not a tar.gz file: leave out 'gzipDigest' and 'gzipSize'");
      }
      const manifest = await manifestAt(location, caller);
      const { digest } = manifest;
      const queue = caller.user === undefined ? queues.anonymous : queues.users;
      const tarDigest = await queue.run(() => measure(manifest, caller.signal));
      if (claimed !== undefined && claimed !== tarDigest) {
        throw new Fault(
          'bad-request',
          `buildContext.tarDigest is ${claimed}, but the context's is ${tarDigest}: send that one, or leave the field out`,
          { phase: 'layer' },
        );
      }
      return { digest, tarDigest };
    },
  };
}

function hashQueue(): Semaphore {
  const refusal = () =>
    new Fault('unavailable', 'Too many build contexts are being checked: try again later', {
      phase: 'limit',
      limit: 'build contexts checked at once',
      retryAfterSeconds: 30,
    });
  return new Semaphore({ limit: hashedAtOnce, mostWaiting, refusal });
}

function malformedContext(what: string): Fault {
  return new Fault('bad-request', `buildContext.location ${what}`, { phase: 'layer' });
}

function contextExpired(): Fault {
  return new Fault('bad-request', 'The build context has expired here: upload it again', {
    phase: 'layer',
  });
}

/**
 * Takes in the build context of a request: one in the form of a layer, or one that the caller has uploaded. Throws a
 * `Fault`.
 */
export type TakeContext = (context: SubmittedLayer, caller: LayerCaller) => Promise<SentContext>;

export function createTakeContext(
  layers: Pick<LayerIntake, 'takeContext'>,
  uploaded: UploadedContexts,
): TakeContext {
  return async (context, caller) => {
    if (uploadedScheme.test(context.location)) {
      return { ...(await uploaded.take(context, caller)), isUploaded: true };
    }
    const { gzipDigest: digest, tarDigest } = await layers.takeContext(context, caller);
    return { digest, tarDigest };
  };
}

/** The right to upload build contexts into a hosted repository. */
interface ContextGrant {
  /** Host at the beginning of names of hosted images. */
  readonly registry: string;
  readonly repository: string;
  /** Bearer token to pull from the repository and push to it. */
  readonly token: string;
  readonly expiresInSeconds: number;
}

/** Returns the grant of a caller. Throws a `Fault` (429, 507) for a caller whose network has reached its limits. */
export type GrantContexts = (caller: Pick<Caller, 'network' | 'user'>) => Promise<ContextGrant>;

interface ContextGrantDeps {
  readonly tokens: Pick<RegistryTokens, 'issue' | 'service'>;
  readonly share: Pick<AnonymousShare, 'take'>;
}

const lifeMs = 3_600_000;

export function createGrantContexts({ tokens, share }: ContextGrantDeps): GrantContexts {
  return async caller => {
    (await share.take(caller.network))[Symbol.dispose]();
    const repository = contextRepository(caller);
    const access = [
      { type: 'repository' as const, name: repository, actions: ['pull', 'push'] as const },
    ];
    return {
      registry: tokens.service,
      repository,
      token: await tokens.issue({ access }, lifeMs),
      expiresInSeconds: lifeMs / 1000,
    };
  };
}
