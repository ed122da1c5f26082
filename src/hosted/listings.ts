import { Fault } from '../fault.ts';
import type { Digest } from '../oci/digest.ts';
import { mediaTypes } from '../oci/media-type.ts';
import { pageSize } from '../oci/page-size.ts';
import type { HostedManifest, HostedStore } from '../store/hosted.ts';

/** A page of a listing. */
export interface Listing {
  readonly contentType: string;
  readonly body: object;
  /** The query of the next page. */
  readonly next: string | undefined;
  /** What the list was filtered by. */
  readonly filtered?: string;
}

/** Source: OCI distribution specification 1.1, Content Discovery. */
export interface HostedListings {
  /** Tags in the order of their bytes; the query may have `n` and `last`. Throws a {@link Fault} (404). */
  tags(repository: string, query: URLSearchParams): Listing;
  /** An index of what has the digest as its subject; the query may have `artifactType`. */
  referrers(repository: string, subject: Digest, query: URLSearchParams): Listing;
}

const largestPage = 10_000;
const referrersPage = 1000;

export function createHostedListings(store: HostedStore): HostedListings {
  return {
    tags(repository, query) {
      if (!store.hasRepository(repository)) {
        throw new Fault('not-found', `There is no repository ${repository}`, { phase: 'request' });
      }
      const size = Math.min(pageSize(query) ?? largestPage, largestPage);
      const found = store.tags(repository, query.get('last') ?? '', size + 1);
      const tags = found.slice(0, size);
      const last = tags.at(-1);
      const hasMore = found.length > size && last !== undefined;
      return {
        contentType: 'application/json',
        body: { name: repository, tags },
        next: hasMore ? `n=${size}&last=${encodeURIComponent(last)}` : undefined,
      };
    },

    referrers(repository, subject, query) {
      const wanted = query.get('artifactType') || undefined;
      const after = query.get('last') ?? '';
      const found = store.referrers(repository, subject, after, referrersPage + 1);
      const page = found.slice(0, referrersPage);
      const manifests = page
        .filter(({ artifactType }) => wanted === undefined || artifactType === wanted)
        .map(descriptorOf);
      const filter = wanted === undefined ? '' : `artifactType=${encodeURIComponent(wanted)}&`;
      const last = page.at(-1)?.digest;
      return {
        contentType: mediaTypes.ociIndex,
        body: { schemaVersion: 2, mediaType: mediaTypes.ociIndex, manifests },
        next: found.length > referrersPage ? `${filter}last=${last}` : undefined,
        ...(wanted === undefined ? {} : { filtered: 'artifactType' }),
      };
    },
  };
}

function descriptorOf({ mediaType, digest, size, artifactType, annotations }: HostedManifest) {
  return {
    mediaType,
    digest,
    size,
    ...(artifactType === null ? {} : { artifactType }),
    ...(annotations === null ? {} : { annotations: JSON.parse(annotations) }),
  };
}
