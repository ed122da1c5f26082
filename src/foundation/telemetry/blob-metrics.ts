import { Counter, type Registry } from 'prom-client';

/**
 * How a blob came to a client: `stored`: from the content store, or through it while it arrives; `relayed`: from its
 * registry as it arrives; `redirected`: by itself, from the storage of its registry.
 */
export type BlobDelivery = 'stored' | 'relayed' | 'redirected';

/** Notes a blob that has ended, and how many of its bytes were sent. */
export type NoteBlob = (delivery: BlobDelivery, bytes: number) => void;

/** Adds metrics of the blobs that clients have pulled. */
export function createBlobMetrics(registry: Registry): NoteBlob {
  const registers = [registry];
  const blobs = new Counter({
    name: 'sluice_blobs_total',
    help: 'Blobs that clients have pulled, whole or in part, by the way the bytes took',
    labelNames: ['way'] as const,
    registers,
  });
  const bytes = new Counter({
    name: 'sluice_blob_bytes_total',
    help: 'Bytes of blobs that were sent to clients, by the way they took',
    labelNames: ['way'] as const,
    registers,
  });
  return (delivery, sent) => {
    blobs.inc({ way: delivery });
    if (sent > 0) bytes.inc({ way: delivery }, sent);
  };
}
