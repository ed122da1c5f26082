import { type BuildPlan, recipeIn } from '../../../builds/plan/build-plan.ts';
import { boundedCache } from '../../../foundation/bounded-cache.ts';
import { layersIn } from '../../../images/augment/index.ts';
import type { Digest } from '../../../oci/digest.ts';
import { partsOf } from '../../../oci/index.ts';
import { mediaTypes } from '../../../oci/media-type.ts';
import { OciSyntaxError } from '../../../oci/naming.ts';
import { readStoredRequest } from '../../../request/tokens/index.ts';
import type { ContentStore } from '../../../storage/content/index.ts';
import {
  type BuildStore,
  type EndingRequest,
  eachRow,
  type PackageLayerStore,
  type RequestPlace,
  type RequestStore,
  type UnfinishedBuild,
} from '../../../storage/rows/index.ts';
import type { DigestFilter } from './digest-filter.ts';

// Requests for one image are close together, so its manifests are usually read once for all of them.
const rememberedRoots = 20_000;

/**
 * Marks everything that the live container requests need: the images they serve, their bases, the layers they inject,
 * and everything that those refer to.
 */
export async function markRequests(
  content: ContentStore,
  requests: Pick<RequestStore, 'endingAfter'>,
  now: number,
  marked: DigestFilter,
  signal?: AbortSignal,
): Promise<void> {
  // The filter cannot say which roots were read, because it may also report digests that were never added.
  const seen = boundedCache<Digest, true>(rememberedRoots);
  let place: RequestPlace = { expiresAt: now, id: Number.MAX_SAFE_INTEGER };
  const read = async (rows: number): Promise<EndingRequest[]> => {
    const page = await requests.endingAfter(place, rows);
    place = page.at(-1) ?? place;
    return page;
  };
  for await (const { body } of eachRow(read, signal)) {
    // The request was revoked.
    if (body === null) continue;
    const { fixed, change } = readStoredRequest(body);
    for (const { gzipDigest } of layersIn(change)) marked.add(gzipDigest);
    for (const root of fixed ? [fixed.served, fixed.base] : []) {
      await markTree({ content, marked, seen }, root.digest, root.mediaType);
    }
  }
}

/** Marks the build contexts and layers that unfinished builds need. */
export async function markBuilds(
  content: ContentStore,
  builds: Pick<BuildStore, 'unfinished'>,
  marked: DigestFilter,
  signal?: AbortSignal,
): Promise<void> {
  let last = 0;
  const seen = boundedCache<Digest, true>(rememberedRoots);
  const read = async (rows: number): Promise<UnfinishedBuild[]> => {
    const page = await builds.unfinished(last, rows);
    last = page.at(-1)?.row ?? last;
    return page;
  };
  for await (const { plan } of eachRow(read, signal)) {
    const parsed = JSON.parse(plan) as BuildPlan;
    const recipe = recipeIn(parsed);
    if (recipe?.context !== undefined && recipe.isUploaded) {
      // The manifest refers to all other parts of the context.
      await markTree({ content, marked, seen }, recipe.context, mediaTypes.ociManifest);
    } else if (recipe?.context !== undefined) marked.add(recipe.context);
    for (const { gzipDigest } of layersIn(parsed.change)) marked.add(gzipDigest);
  }
}

/** Marks the layers of Conda packages. They are forgotten when they were not used for a time. */
export async function markPackageLayers(
  layers: Pick<PackageLayerStore, 'after'>,
  marked: DigestFilter,
  signal?: AbortSignal,
): Promise<void> {
  let last = 0;
  const read = async (rows: number) => {
    const page = await layers.after(last, rows);
    last = page.at(-1)?.id ?? last;
    return page;
  };
  for await (const { digest } of eachRow(read, signal)) marked.add(digest);
}

interface Marking {
  readonly content: ContentStore;
  readonly marked: DigestFilter;
  readonly seen: ReturnType<typeof boundedCache<Digest, true>>;
}

async function markTree(marking: Marking, digest: Digest, mediaType: string): Promise<void> {
  const { content, marked, seen } = marking;
  if (seen.has(digest)) return;
  seen.set(digest, true);
  marked.add(digest);
  const bytes = await content.read(digest);
  if (!bytes) return;
  try {
    const { blobs, manifests } = partsOf({ bytes, digest, mediaType });
    for (const blob of blobs) marked.add(blob.digest);
    for (const child of manifests) await markTree(marking, child.digest, child.mediaType);
  } catch (error) {
    // A document that is not a manifest refers to nothing.
    if (!(error instanceof OciSyntaxError)) throw error;
  }
}
