import type { ServerResponse } from 'node:http';
import { z } from 'zod';
import { isDigest } from '../../../oci/digest.ts';
import type { BlobOrder } from '../../../pull/index.ts';
import { handedOnHeaders } from '../../callers/handed-on.ts';

// A token of a registry has a few KiB.
export const largestOrder = 64 * 1024;

const credentialsSchema = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('password'), username: z.string(), password: z.string() }),
  z.object({ kind: z.literal('identity-token'), token: z.string() }),
]);

const digestSchema = z.string().refine(isDigest);
const sizeSchema = z.number().int().min(0);

const orderSchema = z.discriminatedUnion('kind', [
  z.object({
    kind: z.literal('relayed'),
    blob: z.object({
      access: z.object({
        registry: z.string(),
        repository: z.string(),
        credentials: credentialsSchema.optional(),
        network: z.string().optional(),
      }),
      digest: digestSchema,
      size: sizeSchema.optional(),
    }),
    redirects: z.enum(['follow', 'handOn']),
  }),
  z.object({
    kind: z.literal('stored'),
    digest: digestSchema,
    size: sizeSchema,
    isWatched: z.boolean(),
  }),
]);

/** Lets the replica that handed the request on send the blob. Its caller has the right to it. */
export function sendOrder(order: BlobOrder, response: ServerResponse): void {
  const body = JSON.stringify(order);
  response.writeHead(200, {
    [handedOnHeaders.order]: 'yes',
    'content-type': 'application/json',
    'content-length': String(Buffer.byteLength(body)),
    'cache-control': 'no-store',
  });
  response.end(body);
}

/** Throws for anything but an order of {@link sendOrder}. */
export function parseOrder(bytes: Buffer): BlobOrder {
  return orderSchema.parse(JSON.parse(bytes.toString())) as BlobOrder;
}
