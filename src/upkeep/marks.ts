import type { BuildPlan } from '../build/build-plan.ts';
import type { ContentStore } from '../content/content-store.ts';
import type { Digest } from '../oci/digest.ts';
import { partsOf } from '../oci/manifest-parts.ts';
import { OciSyntaxError } from '../oci/syntax-error.ts';
import { readStoredRequest } from '../request/token-registry.ts';
import type { BuildStore } from '../store/builds.ts';
import type { RequestStore } from '../store/requests.ts';

const pageSize = 500;

/** Everything that the live container requests need: what they serve, its base, the layers they inject, and all that those refer to. */
export async function markRequests(
  content: ContentStore,
  requests: RequestStore,
  now: number,
): Promise<Set<Digest>> {
  const marked = new Set<Digest>();
  let after = 0;
  for (;;) {
    const page = requests.live(after, now, pageSize);
    for (const { id, body } of page) {
      after = id;
      const { fixed, change } = readStoredRequest(body);
      for (const { gzipDigest } of change.layers ?? []) marked.add(gzipDigest);
      for (const root of fixed ? [fixed.served, fixed.base] : []) {
        await markTree(content, root.digest, root.mediaType, marked);
      }
    }
    if (page.length < pageSize) return marked;
  }
}

/** The build contexts and layers that builds need which are not over. */
export function markBuilds(builds: Pick<BuildStore, 'unfinished'>): Set<Digest> {
  const marked = new Set<Digest>();
  for (const { plan } of builds.unfinished()) {
    const { origin, change } = JSON.parse(plan) as BuildPlan;
    if (origin.kind === 'recipe' && origin.context !== undefined) marked.add(origin.context);
    for (const { gzipDigest } of change.layers ?? []) marked.add(gzipDigest);
  }
  return marked;
}

async function markTree(
  content: ContentStore,
  digest: Digest,
  mediaType: string,
  marked: Set<Digest>,
): Promise<void> {
  if (marked.has(digest)) return;
  marked.add(digest);
  const bytes = await content.read(digest);
  if (!bytes) return;
  try {
    const { blobs, manifests } = partsOf({ bytes, digest, mediaType });
    for (const blob of blobs) marked.add(blob.digest);
    for (const child of manifests) {
      await markTree(content, child.digest, child.mediaType, marked);
    }
  } catch (error) {
    // What is no manifest refers to nothing.
    if (!(error instanceof OciSyntaxError)) throw error;
  }
}
