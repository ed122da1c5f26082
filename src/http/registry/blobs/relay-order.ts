import type { ServerResponse } from 'node:http';
import { z } from 'zod';
import { isDigest } from '../../../oci/digest.ts';
import type { ToRelay } from '../../../pull/blobs/pulled-blob.ts';
import { handedOnHeaders } from '../../callers/handed-on.ts';

// A token of a registry has a few KiB.
export const largestOrder = 64 * 1024;

const credentialsSchema = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('password'), username: z.string(), password: z.string() }),
  z.object({ kind: z.literal('identity-token'), token: z.string() }),
]);

const orderSchema = z.object({
  blob: z.object({
    access: z.object({
      registry: z.string(),
      repository: z.string(),
      credentials: credentialsSchema.optional(),
      network: z.string().optional(),
    }),
    digest: z.string().refine(isDigest),
    size: z.number().int().min(0).optional(),
  }),
  redirects: z.enum(['follow', 'handOn']),
});

/** Lets the replica that handed the request on relay the blob. Its caller has the right to it. */
export function sendRelayOrder(order: ToRelay, response: ServerResponse): void {
  const body = JSON.stringify(order);
  response.writeHead(200, {
    [handedOnHeaders.relay]: 'order',
    'content-type': 'application/json',
    'content-length': String(Buffer.byteLength(body)),
    'cache-control': 'no-store',
  });
  response.end(body);
}

/** Throws for anything but an order of {@link sendRelayOrder}. */
export function parseRelayOrder(bytes: Buffer): ToRelay {
  return orderSchema.parse(JSON.parse(bytes.toString())) as ToRelay;
}
