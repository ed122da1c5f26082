import { Fault, unlessMissing } from '../foundation/fault.ts';
import { pageSize } from '../hosted/index.ts';
import { type Digest, isDigest, referrersTag } from '../oci/digest.ts';
import { type Descriptor, documentOf, parseManifest } from '../oci/index.ts';
import { mediaTypes } from '../oci/media-type.ts';
import type { ContainerRequest } from '../request/index.ts';
import { nextPage, type RegistryClient } from '../upstream/index.ts';
import { type PulledImage, servedWith } from './pulled-image.ts';

/** A page of a listing: the response of the registry, rewritten. */
export interface PulledListing {
  readonly contentType: string;
  readonly body: object;
  /** Query of the next page, such as `n=100&last=3.20`. */
  readonly next: string | undefined;
  /** True when the registry has filtered referrers by `artifactType`. */
  readonly isFiltered: boolean;
}

/**
 * Returns a registry's list about a served image: `tags/list`, or `referrers/<digest>`. The only tag is that of the
 * served name; clients find signatures by tags that they compute themselves. Where the service requests referrers in
 * its own right, many callers build into the repository: each caller sees only those of its own image. Throws {@link
 * Fault}.
 */
export async function listingOf(
  registry: RegistryClient,
  { image: { repository, tag } }: Pick<ContainerRequest, 'image'>,
  image: PulledImage,
  path: string,
  query: string,
): Promise<PulledListing> {
  if (path === 'tags/list') {
    return only(tagsOf(repository, pageOf(tag, new URLSearchParams(query))));
  }
  const subject = path.slice(path.indexOf('/') + 1);
  if (!isDigest(subject)) return only(referrersOf([]));
  const isForeign = servedWith(image) !== 'everything' && !(await image.member(subject));
  if (isForeign) return only(referrersOf([]));
  const response = await unlessMissing(registry.getJson(image.access, path, query));
  if (!response) return taggedReferrers(registry, image, subject, query);
  return {
    ...readAs(image, path, () => referrersOf(referrersIn(response.body))),
    next: nextPage(response.headers.get('link')),
    isFiltered: response.headers.get('oci-filters-applied')?.includes('artifactType') === true,
  };
}

/**
 * Returns the referrers that clients have listed under the tag of a subject, at a registry without the referrers API.
 * Source: OCI distribution specification 1.1, Referrers Tag Schema.
 */
async function taggedReferrers(
  registry: RegistryClient,
  image: PulledImage,
  subject: Digest,
  query: string,
): Promise<PulledListing> {
  const tag = referrersTag(subject);
  const index = await unlessMissing(registry.getManifest(image.access, tag));
  if (!index) return only(referrersOf([]));
  const wanted = new URLSearchParams(query).get('artifactType');
  const page = readAs(image, `manifests/${tag}`, () => {
    const entries = referrersIn(index.bytes);
    return referrersOf(
      wanted ? entries.filter(({ artifactType }) => artifactType === wanted) : entries,
    );
  });
  return { ...page, next: undefined, isFiltered: Boolean(wanted) };
}

type Page = Pick<PulledListing, 'contentType' | 'body'>;

function only(page: Page): PulledListing {
  return { ...page, next: undefined, isFiltered: false };
}

function tagsOf(name: string, tags: readonly string[]): Page {
  return { contentType: 'application/json', body: { name, tags } };
}

function referrersOf(manifests: readonly object[]): Page {
  const { ociIndex } = mediaTypes;
  return { contentType: ociIndex, body: { schemaVersion: 2, mediaType: ociIndex, manifests } };
}

/** Returns the only tag, unless the page begins after it or has no room. */
function pageOf(tag: string | undefined, query: URLSearchParams): string[] {
  const isBehind = (query.get('last') ?? '') >= (tag ?? '');
  return tag === undefined || isBehind || pageSize(query) === 0 ? [] : [tag];
}

function referrersIn(bytes: Buffer): readonly Descriptor[] {
  const manifest = parseManifest(documentOf(bytes, mediaTypes.ociIndex));
  if (manifest.kind === 'index') return manifest.manifests;
  throw new Error('it is not an index');
}

function readAs({ access }: PulledImage, path: string, read: () => Page): Page {
  try {
    return read();
  } catch (cause) {
    throw new Fault(
      'upstream',
      `The registry's response for ${path} of ${access.registry}/${access.repository} is not a valid list`,
      { phase: 'upstream', cause },
    );
  }
}
