import { Fault } from '../foundation/fault.ts';
import { isDigest } from '../oci/digest.ts';
import { isRepository, isTag } from '../oci/naming.ts';

/** The parts of a request below `/v2/<prefix>/`. Source: OCI distribution specification 1.1, Endpoints. */
export interface PullPath {
  readonly kind: 'manifests' | 'blobs' | 'tags' | 'referrers';
  readonly token: string;
  readonly repository: string;
  /** Tag or digest of a manifest, digest of a blob or subject, `list` for tags. */
  readonly reference: string;
}

const kinds = new Set(['manifests', 'blobs', 'tags', 'referrers']);

/**
 * Reads `<token>/<repository>/<kind>/<reference>`, the path after `/v2/<prefix>/` without its query. The repository may
 * contain any of the keywords: the last two segments decide. Throws {@link Fault}.
 */
export function parsePullPath(path: string): PullPath {
  const last = path.lastIndexOf('/');
  const beforeLast = path.lastIndexOf('/', last - 1);
  const first = path.indexOf('/');
  const kind = path.slice(beforeLast + 1, last);
  if (!kinds.has(kind) || first >= beforeLast) {
    throw new Fault(
      'not-found',
      'No such route: below a container token there are <image>/manifests, /blobs, /tags/list and /referrers',
      { phase: 'request' },
    );
  }
  const repository = path.slice(first + 1, beforeLast);
  if (!isRepository(repository)) {
    throw new Fault(
      'name-invalid',
      'The image path is not a valid repository name: pull the name exactly as the container request returned it',
      {
        phase: 'request',
      },
    );
  }
  const reference = decodeSegment(path.slice(last + 1));
  checkReference(kind, reference);
  return { kind: kind as PullPath['kind'], token: path.slice(0, first), repository, reference };
}

/** Returns a decoded path segment: clients may escape the colon of a digest, but need not (RFC 3986, section 2.2). */
export function decodeSegment(segment: string): string {
  try {
    return segment.includes('%') ? decodeURIComponent(segment) : segment;
  } catch {
    return '';
  }
}

/** Throws a {@link Fault} unless the last segment of a path is valid for its kind. */
export function checkReference(kind: string, reference: string): void {
  if (kind === 'tags') {
    if (reference === 'list') return;
    throw new Fault('not-found', 'No such route: use tags/list', { phase: 'request' });
  }
  if (isDigest(reference) || (kind === 'manifests' && isTag(reference))) return;
  if (kind === 'manifests' && !reference.includes(':')) {
    throw new Fault('manifest-unknown', 'The reference is neither a tag nor a digest', {
      phase: 'request',
    });
  }
  throw new Fault('digest-invalid', 'The reference is not a valid digest', { phase: 'request' });
}
