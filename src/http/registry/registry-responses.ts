import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Digest } from '../../oci/digest.ts';
import { type Document, manifestType } from '../../oci/index.ts';
import { isManifestLikeType, mediaTypes } from '../../oci/media-type.ts';
import { StillBuilding } from '../../pull/index.ts';

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

/** Sends a JSON value as a response below `/v2`. */
export function sendJson(
  response: ServerResponse,
  status: number,
  value: object,
  headers: Readonly<Record<string, string>> = {},
): void {
  const body = Buffer.from(JSON.stringify(value));
  response.writeHead(status, {
    ...apiVersionHeader,
    'content-type': 'application/json',
    ...headers,
    'content-length': String(body.length),
  });
  response.end(body);
}

// Node sends a string body in one write with the head, and a buffer in a separate write.
const singleWriteBytes = 16 * 1024;

/** Answers HEAD and GET of a manifest. */
export function sendDocument(
  document: Document,
  request: IncomingMessage,
  response: ServerResponse,
  headers: Readonly<Record<string, string>> = {},
): void {
  const { digest, bytes } = document;
  if (isUnmodified(request, digest)) {
    sendUnmodified(response, digest);
    return;
  }
  response.writeHead(200, {
    ...contentHeaders(digest, servedType(document), bytes.length),
    ...headers,
  });
  if (request.method === 'HEAD') response.end();
  else if (bytes.length <= singleWriteBytes) response.end(bytes.toString('latin1'), 'latin1');
  else response.end(bytes);
}

/** Returns the type of the manifest; for a type that is not one of a manifest, returns octet-stream. */
function servedType(document: Document): string {
  const type = manifestType(document);
  return isManifestLikeType(type) ? type : mediaTypes.octetStream;
}

// Go's clients follow ten redirects.
const mostRedirects = 9;

/**
 * Returns what is found when the build of the image has finished. While the build goes on, redirects the client to itself, which
 * restarts its timeout: undefined.
 */
export async function waitForBuild<T>(
  find: () => Promise<T>,
  req: IncomingMessage,
  res: ServerResponse,
): Promise<T | undefined> {
  try {
    return await find();
  } catch (error) {
    const url = new URL(req.url ?? '', 'http://localhost');
    const turn = Number(url.searchParams.get('wait') ?? 0);
    if (!(error instanceof StillBuilding) || !(turn < mostRedirects)) throw error;
    url.searchParams.set('wait', String(turn + 1));
    res.writeHead(307, {
      location: `${url.pathname}${url.search}`,
      'content-length': '0',
      ...apiVersionHeader,
    });
    res.end();
    return undefined;
  }
}
