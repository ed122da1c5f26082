import { Fault } from '../fault.ts';
import type { JsonShape } from '../json-shape.ts';
import { isDigest } from '../oci/digest.ts';
import { documentOf } from '../oci/document.ts';
import { parseJson } from '../oci/json.ts';
import { parseManifest } from '../oci/manifest.ts';
import { mediaTypes } from '../oci/media-type.ts';
import { pageSize } from '../oci/page-size.ts';
import { isTag } from '../oci/reference.ts';
import type { ContainerRequest } from '../request/container-request.ts';
import type { JsonAnswer, RegistryClient } from '../upstream/registry-client.ts';
import type { PulledImage } from './image.ts';

// Registries without pages answer with all tags there are.
const tagsShape: JsonShape = { maxValues: 200_000, maxDepth: 32, maxEscapes: 100_000 };

/** A page of a listing: what the registry said, written again. */
export interface PulledListing {
  readonly contentType: string;
  readonly body: object;
  /** Query of the next page, such as `n=100&last=3.20`. */
  readonly next: string | undefined;
  /** True when the registry has filtered referrers by `artifactType`. */
  readonly isFiltered: boolean;
}

/**
 * What a registry lists about a served image: `tags/list`, or `referrers/<digest>`. Where the service asks in
 * its own right, many callers build into the repository: each sees its own image only. Throws
 * {@link Fault}.
 */
export async function listingOf(
  registry: RegistryClient,
  { image: { repository, tag } }: Pick<ContainerRequest, 'image'>,
  image: PulledImage,
  path: string,
  query: string,
): Promise<PulledListing> {
  const isTags = path === 'tags/list';
  // The registry's refusal would look like a failure of its own.
  if (isTags) pageSize(new URLSearchParams(query));
  if (image.access.isService) {
    if (isTags) return only(tagsOf(repository, tag === undefined ? [] : [tag]));
    const subject = path.slice(path.indexOf('/') + 1);
    if (!isDigest(subject) || !(await image.member(subject))) return only(referrersOf([]));
  }
  const answer = await registry.getJson(image.access, path, query);
  const listing = readAs(`${path} of ${image.access.registry}/${repository}`, () =>
    isTags ? tagsOf(repository, tagsIn(answer)) : referrersOf(referrersIn(answer)),
  );
  return {
    ...listing,
    next: nextPage(answer.headers.get('link')),
    isFiltered: answer.headers.get('oci-filters-applied')?.includes('artifactType') === true,
  };
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

/** The tags of an answer; null stands for none, as servers written in Go have it. */
function tagsIn({ body }: JsonAnswer): string[] {
  const { tags } = parseJson(body, 'index', tagsShape);
  if (tags !== null && !Array.isArray(tags)) throw new Error('it has no list of tags');
  return (tags ?? []).filter(tag => typeof tag === 'string' && isTag(tag));
}

function referrersIn({ body: bytes }: JsonAnswer): readonly object[] {
  const manifest = parseManifest(documentOf(bytes, mediaTypes.ociIndex));
  if (manifest.kind === 'index') return manifest.manifests;
  throw new Error('it is not an index');
}

function readAs(what: string, read: () => Page): Page {
  try {
    return read();
  } catch (cause) {
    throw new Fault('upstream', `The registry's answer for ${what} is not such a list`, {
      phase: 'upstream',
      cause,
    });
  }
}

const longestQuery = 2000;

/** The query in the `Link` of a registry, whose path is its own. Written again: it goes into a header. */
function nextPage(link: string | undefined): string | undefined {
  const query = /<[^>]*\?([^>]*)>\s*;\s*rel="?next"?/i.exec(link ?? '')?.[1];
  if (query === undefined || query.length > longestQuery) return undefined;
  return new URLSearchParams(query).toString();
}
