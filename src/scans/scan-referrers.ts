import { cacheOfBytes } from '../foundation/bounded-cache.ts';
import { Fault } from '../foundation/fault.ts';
import { SingleFlight } from '../foundation/single-flight.ts';
import { type Digest, digestOf } from '../oci/digest.ts';
import {
  type Artifact,
  artifactOf,
  type Descriptor,
  type Document,
  parseManifest,
  type Subject,
  subjectOf,
} from '../oci/index.ts';

/** What is known about a scan for {@link ScanReferrers}. */
interface Documented {
  /** `registry/repository@digest`. */
  readonly image: string;
  /** ms since the epoch; null while the scan runs. */
  readonly finishedAt: number | null;
}

interface AboutImage extends Artifact {
  /** The digest of the manifest that it is about. */
  readonly subject: Digest;
}

interface ScanDocuments {
  get(id: string): Promise<Documented>;
  /** Both throw a `Fault` (404) where there is nothing to write. */
  sarif(id: string): Promise<string>;
  spdx(id: string): Promise<string>;
}

/**
 * The documents about a scanned image, as referrers of its root, and of the image of each platform: clients that have chosen a
 * platform ask for those. They are written when they are asked for.
 */
export interface ScanReferrers {
  /** Returns the referrers of a manifest of an image, as long as its scan is kept. At most two. */
  list(id: string, root: Document, subject: string): Promise<readonly Descriptor[]>;
  /** Returns the manifest of a referrer; undefined for other digests. */
  manifest(id: string, root: Document, digest: string): Promise<Document | undefined>;
  /** Returns a blob of a referrer; undefined for other digests. */
  blob(id: string, root: Document, digest: Digest): Promise<Buffer | undefined>;
}

// Of usual images hundreds. A client reads list, manifest and blob one after the other.
const keptBytes = 16 * 1024 * 1024;
const keptMs = 60_000;
/** A scan reads as many at most. */
export const mostPlatforms = 20;

/** Source: OCI distribution specification 1.1, Listing Referrers. */
export function createScanReferrers(documents: ScanDocuments): ScanReferrers {
  const kept = cacheOfBytes<string, readonly AboutImage[]>(keptBytes, bytesOf, { ttl: keptMs });

  // Documents are large, and written once for all that ask at the same time, also with invented digests.
  const flights = new SingleFlight<readonly AboutImage[]>();

  const artifactsOf = async (id: string, root: Document): Promise<readonly AboutImage[]> => {
    const key = `${id} ${root.digest}`;
    const known = kept.get(key);
    return known ?? flights.run(() => writeAll(key, id, root), { key });
  };

  const writeAll = async (
    key: string,
    id: string,
    root: Document,
  ): Promise<readonly AboutImage[]> => {
    const scan = await documents.get(id).catch(unlessAbsent);
    // A name whose image is made again with other content has a scan of the former one.
    if (!scan || scan.finishedAt === null || !scan.image.endsWith(`@${root.digest}`)) return [];
    const { finishedAt } = scan;
    const annotations = { 'org.opencontainers.image.created': new Date(finishedAt).toISOString() };
    const subjects = subjectsOf(root);
    const artifacts: AboutImage[] = [];
    for (const [artifactType, title, write] of [
      ['application/sarif+json', 'scan.sarif', documents.sarif],
      ['application/spdx+json', 'bom.spdx.json', documents.spdx],
    ] as const) {
      const text = await write(id).catch(unlessAbsent);
      if (text === undefined) continue;
      const content = Buffer.from(text);
      const file = { artifactType, content, digest: digestOf(content), title, annotations };
      for (const subject of subjects) {
        artifacts.push({ ...artifactOf(subject, file), subject: subject.digest });
      }
    }
    kept.set(key, artifacts);
    return artifacts;
  };

  return {
    async list(id, root, subject) {
      if (subjectsOf(root).every(({ digest }) => digest !== subject)) return [];
      const artifacts = await artifactsOf(id, root);
      return artifacts.filter(one => one.subject === subject).map(one => one.descriptor);
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

/** Returns the root of an image, and the image of each platform. Attestations are listed for an unknown system. */
function subjectsOf(root: Document): Subject[] {
  const manifest = parseManifest(root);
  if (manifest.kind !== 'index') return [subjectOf(root)];
  const parts = manifest.manifests.filter(({ platform }) => platform?.os !== 'unknown');
  // One image may be listed for two platforms.
  const byDigest = new Map([subjectOf(root), ...parts].map(part => [part.digest, part]));
  return [...byDigest.values()].slice(0, 1 + mostPlatforms);
}

/** Returns the bytes of all documents, which the images of all platforms share. */
function bytesOf(artifacts: readonly AboutImage[]): number {
  const contents = new Set(artifacts.flatMap(({ blobs }) => [...blobs.values()]));
  const manifests = artifacts.reduce((sum, { manifest }) => sum + manifest.bytes.length, 0);
  return [...contents].reduce((sum, { length }) => sum + length, manifests);
}

function unlessAbsent(error: unknown): undefined {
  if (error instanceof Fault && error.kind === 'not-found') return undefined;
  throw error;
}
