import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Document } from '../../oci/document.ts';
import { manifestType } from '../../oci/manifest.ts';
import { isManifestLikeType, mediaTypes } from '../../oci/media-type.ts';
import { contentHeaders, isUnmodified, sendUnmodified } from './registry-headers.ts';

// As a string an answer goes out in one write with its head, as a buffer in a separate write.
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

/** The type of the manifest. Its bytes are never changed: of a type that no manifest has, they are served as bytes. */
function servedType(document: Document): string {
  const type = manifestType(document);
  return isManifestLikeType(type) ? type : mediaTypes.octetStream;
}
