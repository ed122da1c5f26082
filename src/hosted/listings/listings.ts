import { Fault } from '../../foundation/fault.ts';
import { pauseTurn } from '../../foundation/pause-turn.ts';
import type { Digest } from '../../oci/digest.ts';
import { mediaTypes } from '../../oci/media-type.ts';
import type { HostedManifest, HostedStore } from '../../storage/rows/index.ts';
import type { Rights } from '../rights.ts';

/** A page of a listing. */
export interface Listing {
  readonly contentType: string;
  readonly body: object;
  /** Query of the next page. */
  readonly next: string | undefined;
  /** The filter of the list. */
  readonly filtered?: string;
}

/** Source: OCI distribution specification 1.1, Content Discovery. */
export interface HostedListings {
  /**
   * Returns the names of the repositories that the caller may pull, in the order of their bytes; the query may have `n`
   * and `last`. Source: Docker Registry HTTP API V2, Listing Repositories.
   */
  catalog(rights: Rights, query: URLSearchParams): Promise<Listing>;
  /** Returns the tags in the order of their bytes; the query may have `n` and `last`. Throws a {@link Fault} (404). */
  tags(repository: string, query: URLSearchParams): Promise<Listing>;
  /**
   * Returns a page of an index of the manifests whose subject is the digest; the query may have `artifactType` and
   * `last`.
   */
  referrers(repository: string, subject: Digest, query: URLSearchParams): Promise<Listing>;
}

const largestPage = 10_000;
const catalogPage = 1000;
const referrersPage = 1000;
// Writing this many bytes of small annotations takes some 30 ms.
const referrersPageBytes = 1024 * 1024;

export function createHostedListings(store: HostedStore): HostedListings {
  return {
    async catalog(rights, query) {
      const size = Math.min(pageSize(query) ?? catalogPage, catalogPage);
      const repositories: string[] = [];
      let last = query.get('last') ?? '';
      for (;;) {
        const found = await store.repositories(last, catalogPage);
        for (const name of found) {
          await pauseTurn();
          if (!rights(name).includes('pull')) continue;
          if (repositories.length === size) {
            const end = repositories.at(-1);
            const next =
              end === undefined ? undefined : `n=${size}&last=${encodeURIComponent(end)}`;
            return { contentType: 'application/json', body: { repositories }, next };
          }
          repositories.push(name);
        }
        last = found.at(-1) ?? last;
        if (found.length < catalogPage) {
          return { contentType: 'application/json', body: { repositories }, next: undefined };
        }
      }
    },

    async tags(repository, query) {
      if (!(await store.hasRepository(repository))) {
        throw new Fault('not-found', `The repository ${repository} does not exist`, {
          phase: 'request',
        });
      }
      const size = Math.min(pageSize(query) ?? largestPage, largestPage);
      const found = await store.tags(repository, query.get('last') ?? '', size + 1);
      const tags = found.slice(0, size);
      const last = tags.at(-1);
      const hasMore = found.length > size && last !== undefined;
      return {
        contentType: 'application/json',
        body: { name: repository, tags },
        next: hasMore ? `n=${size}&last=${encodeURIComponent(last)}` : undefined,
      };
    },

    async referrers(repository, subject, query) {
      const wanted = query.get('artifactType') || undefined;
      const after = query.get('last') ?? '';
      const found = await store.referrers(repository, subject, after, referrersPage + 1);
      const page: HostedManifest[] = [];
      let bytes = 0;
      let last = '';
      let hasMore = found.length > referrersPage;
      for (const { digest, artifactType } of found.slice(0, referrersPage)) {
        const isWanted = wanted === undefined || artifactType === wanted;
        const manifest = isWanted ? await store.manifest(repository, digest) : undefined;
        bytes += manifest ? sizeOf(manifest) : 0;
        if (bytes > referrersPageBytes && page.length > 0) {
          hasMore = true;
          break;
        }
        if (manifest) page.push(manifest);
        last = digest;
      }
      const manifests = page.map(descriptorOf);
      const filter = wanted === undefined ? '' : `artifactType=${encodeURIComponent(wanted)}&`;
      return {
        contentType: mediaTypes.ociIndex,
        body: { schemaVersion: 2, mediaType: mediaTypes.ociIndex, manifests },
        next: hasMore ? `${filter}last=${last}` : undefined,
        ...(wanted === undefined ? {} : { filtered: 'artifactType' }),
      };
    },
  };
}

function sizeOf({ artifactType, annotations }: HostedManifest): number {
  return (artifactType?.length ?? 0) + (annotations?.length ?? 0);
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

/**
 * Returns the number in the parameter `n` of a listing; undefined when it is absent. Throws a {@link Fault} (400) for
 * a value that is not a number, with the code of the distribution registry. Source: OCI distribution specification
 * 1.1, Listing Tags; distribution, HTTP API V2, Errors.
 */
export function pageSize(query: URLSearchParams): number | undefined {
  const text = query.get('n');
  if (text === null) return undefined;
  if (/^\d{1,9}$/.test(text)) return Number(text);
  throw new Fault('page-size-invalid', "'n' must be the number of entries wanted, such as n=100", {
    phase: 'request',
  });
}
