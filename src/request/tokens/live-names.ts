import { type Digest, isDigest } from '../../oci/digest.ts';
import { formatReference, parseReference, type Reference } from '../../oci/naming.ts';
import { eachRow, type RequestPlace, type RequestStore } from '../../storage/rows/index.ts';
import type { ContainerRequest } from '../container-request.ts';
import { type NameId, nameIdOf } from './container-token.ts';
import { endOf, readStoredRequest } from './token-registry.ts';

/** The names that a list is limited to. */
export interface NameQuery {
  readonly isWanted: ImageFilter;
  /** The user who made the requests. Undefined: everybody. */
  readonly user: string | undefined;
  /** {@link NameList.next} of the page before. */
  readonly after: RequestPlace | undefined;
}

/** A served name that has not ended, without its token. */
export interface LiveName extends Pick<ContainerRequest, 'createdAt' | 'expiresAt' | 'buildId'> {
  readonly id: NameId;
  readonly image: string;
  /** What is served; undefined until the image is built. */
  readonly digest: Digest | undefined;
  readonly user: string | undefined;
  /** Id of the run that the name ends with. */
  readonly workflowId: string | undefined;
}

export interface NameList {
  readonly names: readonly LiveName[];
  /** Where the next page begins; undefined at the end of the list. */
  readonly next: RequestPlace | undefined;
}

// A page looks at this many requests at most, whatever the query finds.
const mostSeen = 5000;
const pageLength = 100;

/**
 * Returns a page of the served names that have not ended, in the order of their ends. A page may have few names, or none,
 * and others after it.
 */
export async function listLiveNames(
  requests: Pick<RequestStore, 'endingAfter'>,
  { isWanted, user, after }: NameQuery,
  now: number,
): Promise<NameList> {
  const names: LiveName[] = [];
  let from: RequestPlace = after ?? { expiresAt: now, id: Number.MAX_SAFE_INTEGER };
  let seen = 0;
  const read = async (rows: number) => {
    const page = await requests.endingAfter(from, rows);
    from = page.at(-1) ?? from;
    return page;
  };
  for await (const row of eachRow(read)) {
    const { tokenHash, createdAt, expiresAt, leaseUntil, id, body } = row;
    seen += 1;
    // The run of a name that its platform did not confirm may still be active: the name then lives again.
    const request = body === null || endOf(row) <= now ? undefined : readStoredRequest(body);
    if (
      request &&
      !request.isFrozen &&
      (user === undefined || request.caller.user === user) &&
      isWanted(request)
    ) {
      names.push({
        id: nameIdOf(tokenHash),
        createdAt,
        expiresAt: endOf(row),
        buildId: request.buildId,
        workflowId: leaseUntil === null ? undefined : request.run?.id,
        image: formatReference(request.image),
        digest: request.fixed?.served.digest,
        user: request.caller.user,
      });
    }
    if (seen >= mostSeen || names.length >= pageLength) return { names, next: { expiresAt, id } };
  }
  return { names, next: undefined };
}

/** Returns the user who made the request of a name; undefined for an unknown name, and for a caller without a login. */
export async function ownerOfName(
  requests: Pick<RequestStore, 'find'>,
  id: NameId,
): Promise<string | undefined> {
  const row = await requests.find(Buffer.from(id, 'hex'));
  return row && readStoredRequest(row.body).caller.user;
}

type Named = Pick<ContainerRequest, 'image' | 'fixed'>;
type ImageFilter = (request: Named) => boolean;

/**
 * Returns a test whether a request serves an image. Throws an `OciSyntaxError` for a text that names none.
 *
 * @param text an image, with or without its tag or digest, or a digest alone. Undefined: all images
 */
export function imageFilter(text: string | undefined): ImageFilter {
  if (text === undefined) return () => true;
  if (isDigest(text)) return request => digestsOf(request).includes(text);
  const { registry, repository, tag, digest } = parseReference(text);
  // A name without a tag and a digest stands for all images of its repository.
  const wantedTag = digest === undefined && text.endsWith(`:${tag}`) ? tag : undefined;
  return request => {
    const { image }: { readonly image: Reference } = request;
    if (image.registry !== registry || image.repository !== repository) return false;
    if (digest !== undefined) return digestsOf(request).includes(digest);
    return wantedTag === undefined || image.tag === wantedTag;
  };
}

/** The digests of what was asked for, of its base and of what is served. */
function digestsOf({ image, fixed }: Named): readonly (Digest | undefined)[] {
  return [image.digest, fixed?.root, fixed?.base.digest, fixed?.served.digest];
}
