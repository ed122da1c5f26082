import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Digest } from '../../oci/digest.ts';

/** Docker clients recognize a registry by this header. */
export const apiVersionHeader = { 'docker-distribution-api-version': 'registry/2.0' } as const;

/** Returns the headers of content with a digest, which is the strongest validator (RFC 9110, section 8.8.3). */
export function contentHeaders(digest: Digest, mediaType: string, length: number) {
  return {
    'content-type': mediaType,
    'content-length': String(length),
    'docker-content-digest': digest,
    etag: `"${digest}"`,
    ...apiVersionHeader,
  };
}

/** Returns true when the client already has the content. Source: RFC 9110, section 13.1.2. */
export function isUnmodified(request: IncomingMessage, digest: Digest): boolean {
  const header = request.headers['if-none-match'];
  if (header === undefined) return false;
  return header.split(',').some(entry => {
    const tag = entry.trim().replace(/^W\//, '');
    return tag === '*' || tag === `"${digest}"` || tag === digest;
  });
}

/** Sends 304, with the headers that identify the unmodified content. */
export function sendUnmodified(response: ServerResponse, digest: Digest): void {
  response.writeHead(304, {
    'docker-content-digest': digest,
    etag: `"${digest}"`,
    ...apiVersionHeader,
  });
  response.end();
}
