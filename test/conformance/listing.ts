import assert from 'node:assert/strict';
import { type Descriptor, mediaTypes } from '../corpus/content.ts';
import { assertStatus } from './assertions.ts';
import type { ClientResponse, Repository } from './client.ts';

/** The tags of one response. */
export async function tagsOf(repository: Repository, query = ''): Promise<readonly string[]> {
  return readTags(repository, await repository.send('GET', `tags/list${query}`));
}

/** The tags of every page, each as its response has them; follows `Link` to its end. */
export async function tagPages(
  repository: Repository,
  query: string,
): Promise<readonly (readonly string[])[]> {
  const pages: (readonly string[])[] = [];
  let next: string | undefined = `tags/list${query}`;
  while (next !== undefined) {
    assert.ok(pages.length < 100, 'the pages come to an end');
    const response: ClientResponse = await repository.send('GET', next);
    pages.push(readTags(repository, response));
    next = nextOf(response);
  }
  return pages;
}

/** The URL of the next page. Source: RFC 5988. */
export function nextOf({ headers, url }: ClientResponse): string | undefined {
  if (headers.link === undefined) return undefined;
  const [, target] = /^<([^>]+)>; *rel="?next"?$/.exec(String(headers.link)) ?? [];
  assert.ok(target !== undefined, `Link: ${headers.link}`);
  return new URL(target, url).href;
}

function readTags(repository: Repository, response: ClientResponse): readonly string[] {
  assertStatus(response, 200);
  assert.match(response.headers['content-type'] ?? '', /^application\/json\b/);
  const { name, tags } = JSON.parse(response.body.toString());
  assert.equal(name, repository.name);
  assert.ok(Array.isArray(tags), response.body.toString());
  return tags;
}

export interface Referrers {
  readonly manifests: readonly Descriptor[];
  /** `OCI-Filters-Applied` of the first page. */
  readonly filters: string | undefined;
}

/** Returns the listed referrers of the subject from every page. */
export async function referrersOf(
  repository: Repository,
  subject: string,
  artifactType?: string,
): Promise<Referrers> {
  const query = artifactType === undefined ? '' : `?${new URLSearchParams({ artifactType })}`;
  const first = await repository.send('GET', `referrers/${subject}${query}`);
  const manifests = [...readReferrers(first)];
  let next = nextOf(first);
  while (next !== undefined) {
    const response: ClientResponse = await repository.send('GET', next);
    manifests.push(...readReferrers(response));
    next = nextOf(response);
  }
  const filters = first.headers['oci-filters-applied'];
  return { manifests, filters: filters === undefined ? undefined : String(filters) };
}

function readReferrers(response: ClientResponse): readonly Descriptor[] {
  assertStatus(response, 200);
  assert.equal(response.headers['content-type'], mediaTypes.ociIndex);
  const { schemaVersion, mediaType, manifests } = JSON.parse(response.body.toString());
  assert.equal(schemaVersion, 2);
  assert.equal(mediaType, mediaTypes.ociIndex);
  assert.ok(Array.isArray(manifests), response.body.toString());
  return manifests;
}
