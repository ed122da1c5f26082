import { Fault } from '../../../foundation/fault.ts';
import { isRepository } from '../../../oci/naming.ts';
import { checkReference, decodeSegment } from '../../../pull/index.ts';

/** The target of a request to a hosted repository. Source: OCI distribution specification 1.1, Endpoints. */
export type HostedPath =
  | {
      readonly kind: 'manifests' | 'blobs' | 'tags' | 'referrers';
      readonly repository: string;
      readonly reference: string;
    }
  | {
      readonly kind: 'uploads';
      readonly repository: string;
      /** Id of the upload; undefined in the request that begins one. */
      readonly upload: string | undefined;
    };

const uploadPath = /^(.+)\/blobs\/uploads(?:\/([^/]*))?$/;
const contentPath = /^(.+)\/(manifests|blobs|tags|referrers)\/([^/]+)$/;

/** Reads the path behind `/v2/`, without its query. Throws {@link Fault}. */
export function parseHostedPath(path: string): HostedPath {
  const [, uploadRepository, upload] = uploadPath.exec(path) ?? [];
  if (uploadRepository !== undefined) {
    return {
      kind: 'uploads',
      repository: checkedRepository(uploadRepository),
      upload: upload || undefined,
    };
  }
  const [, repository, kind, segment = ''] = contentPath.exec(path) ?? [];
  if (repository === undefined || kind === undefined) {
    throw new Fault(
      'not-found',
      'No such route: below a repository there are /manifests, /blobs, /blobs/uploads, /tags/list and /referrers',
      { phase: 'request' },
    );
  }
  const reference = decodeSegment(segment);
  checkReference(kind, reference);
  return {
    kind: kind as 'manifests' | 'blobs' | 'tags' | 'referrers',
    repository: checkedRepository(repository),
    reference,
  };
}

function checkedRepository(name: string): string {
  if (isRepository(name)) return name;
  throw new Fault(
    'name-invalid',
    'This is not a valid repository name: use lower-case letters, digits and single separators . _ - between slashes',
    { phase: 'request' },
  );
}
