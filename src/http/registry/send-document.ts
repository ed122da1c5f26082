import type { IncomingMessage, ServerResponse } from 'node:http';
import { type Document, manifestType } from '../../oci/index.ts';
import { isManifestLikeType, mediaTypes } from '../../oci/media-type.ts';
import { contentHeaders, isUnmodified, sendUnmodified } from './registry-headers.ts';

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
