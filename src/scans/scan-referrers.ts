import { cacheOfBytes } from '../foundation/bounded-cache.ts';
import { Fault } from '../foundation/fault.ts';
import { SingleFlight } from '../foundation/single-flight.ts';
import type { Digest } from '../oci/digest.ts';
import { type Artifact, artifactOf, type Descriptor, type Document } from '../oci/index.ts';

/** What is known about a scan for {@link ScanReferrers}. */
interface Documented {
  /** `registry/repository@digest`. */
  readonly image: string;
  /** ms since the epoch; null while the scan runs. */
  readonly finishedAt: number | null;
}

interface ScanDocuments {
  get(id: string): Promise<Documented>;
  /** Both throw a `Fault` (404) where there is nothing to write. */
  sarif(id: string): Promise<string>;
  spdx(id: string): Promise<string>;
}

/** The documents about a scanned image, as referrers of the image. They are written when they are asked for. */
export interface ScanReferrers {
  /** Returns the referrers of the root of an image, as long as its scan is kept. At most two. */
  list(id: string, root: Document): Promise<readonly Descriptor[]>;
  /** Returns the manifest of a referrer; undefined for other digests. */
  manifest(id: string, root: Document, digest: string): Promise<Document | undefined>;
  /** Returns a blob of a referrer; undefined for other digests. */
  blob(id: string, root: Document, digest: Digest): Promise<Buffer | undefined>;
}

// Of usual images hundreds. A client reads list, manifest and blob one after the other.
const keptBytes = 16 * 1024 * 1024;
const keptMs = 60_000;

/** Source: OCI distribution specification 1.1, Listing Referrers. */
export function createScanReferrers(documents: ScanDocuments): ScanReferrers {
  const kept = cacheOfBytes<string, readonly Artifact[]>(
    keptBytes,
    artifacts => artifacts.reduce((sum, { blobs }) => sum + bytesOf(blobs), 0),
    { ttl: keptMs },
  );

  // Documents are large, and written once for all that ask at the same time, also with invented digests.
  const flights = new SingleFlight<readonly Artifact[]>();

  const artifactsOf = async (id: string, root: Document): Promise<readonly Artifact[]> => {
    const key = `${id} ${root.digest}`;
    const known = kept.get(key);
    return known ?? flights.run(() => writeAll(key, id, root), { key });
  };

  const writeAll = async (
    key: string,
    id: string,
    root: Document,
  ): Promise<readonly Artifact[]> => {
    const scan = await documents.get(id).catch(unlessAbsent);
    // A name whose image is made again with other content has a scan of the former one.
    if (!scan || scan.finishedAt === null || !scan.image.endsWith(`@${root.digest}`)) return [];
    const { finishedAt } = scan;
    const annotations = { 'org.opencontainers.image.created': new Date(finishedAt).toISOString() };
    const artifacts: Artifact[] = [];
    for (const [artifactType, title, write] of [
      ['application/sarif+json', 'scan.sarif', documents.sarif],
      ['application/spdx+json', 'bom.spdx.json', documents.spdx],
    ] as const) {
      const text = await write(id).catch(unlessAbsent);
      if (text === undefined) continue;
      const content = Buffer.from(text);
      artifacts.push(artifactOf(root, { artifactType, content, title, annotations }));
    }
    kept.set(key, artifacts);
    return artifacts;
  };

  return {
    async list(id, root) {
      const artifacts = await artifactsOf(id, root);
      return artifacts.map(({ descriptor }) => descriptor);
    },
    async manifest(id, root, digest) {
      const artifacts = await artifactsOf(id, root);
      return artifacts.find(({ manifest }) => manifest.digest === digest)?.manifest;
    },
    async blob(id, root, digest) {
      const artifacts = await artifactsOf(id, root);
      return artifacts.map(({ blobs }) => blobs.get(digest)).find(bytes => bytes !== undefined);
    },
  };
}

function bytesOf(blobs: Artifact['blobs']): number {
  return [...blobs.values()].reduce((sum, { length }) => sum + length, 0);
}

function unlessAbsent(error: unknown): undefined {
  if (error instanceof Fault && error.kind === 'not-found') return undefined;
  throw error;
}
