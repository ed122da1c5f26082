import { randomBytes } from 'node:crypto';
import { type BuildPlan, recipeIn } from '../../../builds/plan/build-plan.ts';
import { boundedCache } from '../../../foundation/bounded-cache.ts';
import { layersIn } from '../../../images/augment/index.ts';
import { type Digest, splitDigest } from '../../../oci/digest.ts';
import { partsOf } from '../../../oci/index.ts';
import { mediaTypes } from '../../../oci/media-type.ts';
import { OciSyntaxError } from '../../../oci/naming.ts';
import { neededRoots, readStoredRequest } from '../../../request/tokens/index.ts';
import type { ContentStore } from '../../../storage/content/index.ts';
import {
  type BuildStore,
  eachRow,
  type NeedsRow,
  type PackageLayerStore,
  type RequestStore,
  type UnfinishedBuild,
} from '../../../storage/rows/index.ts';

// Many images have the same base, whose manifests are usually read once for all of them.
const rememberedRoots = 20_000;

/**
 * Marks everything that the live container requests need: the images they serve, their bases, the layers they inject,
 * and everything that those refer to. Requests that need the same are read once (docs/adr/0102-requests-by-what-they-need.md).
 */
export async function markRequests(
  content: ContentStore,
  requests: Pick<RequestStore, 'needsAfter'>,
  now: number,
  marked: DigestFilter,
  signal?: AbortSignal,
): Promise<void> {
  // The filter cannot say which roots were read, because it may also report digests that were never added.
  const seen = boundedCache<Digest, true>(rememberedRoots);
  let last: Buffer = Buffer.alloc(0);
  const read = async (rows: number): Promise<NeedsRow[]> => {
    const page = await requests.needsAfter(last, now, rows);
    last = page.at(-1)?.needs ?? last;
    return page;
  };
  for await (const { body } of eachRow(read, signal)) {
    if (body === null) continue;
    const { images, layers } = neededRoots(readStoredRequest(body));
    for (const layer of layers) marked.add(layer);
    for (const { digest, mediaType } of images) {
      await markTree({ content, marked, seen }, digest, mediaType);
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

/** A set of digests in a fixed amount of memory, for any number of digests. */
interface DigestFilter {
  add(digest: Digest): void;
  /**
   * True for every added digest, and by chance for a few others: one in 3,000 with ten million added digests, one in
   * 60 with thirty million. Each filter is wrong about different digests.
   */
  mayHave(digest: Digest): boolean;
}

const filterBytes = 32 * 1024 * 1024;
const probes = 4;
const positions = filterBytes * 8;

/**
 * Returns a Bloom filter. Digests are evenly distributed already, so their own bits, mixed with a secret of this
 * filter, select the positions. The system provides the memory as it is written to.
 */
export function createDigestFilter(): DigestFilter {
  const bits = new Uint8Array(filterBytes);
  const secret = randomBytes(4 * probes);
  const secrets = Array.from({ length: probes }, (_, at) => secret.readUInt32LE(4 * at) | 1);
  const positionOf = (hex: string, at: number): number => {
    const word = Number.parseInt(hex.slice(at * 8, at * 8 + 8), 16);
    // A multiplication mixes the lower bits into the upper ones, which select the position.
    return Math.floor(((Math.imul(word, secrets[at] ?? 1) >>> 0) / 2 ** 32) * positions);
  };
  return {
    add(digest) {
      const { hex } = splitDigest(digest);
      for (let at = 0; at < probes; at += 1) {
        const position = positionOf(hex, at);
        bits[position >>> 3] = (bits[position >>> 3] ?? 0) | (1 << (position & 7));
      }
    },
    mayHave(digest) {
      const { hex } = splitDigest(digest);
      for (let at = 0; at < probes; at += 1) {
        const position = positionOf(hex, at);
        if (((bits[position >>> 3] ?? 0) & (1 << (position & 7))) === 0) return false;
      }
      return true;
    },
  };
}
