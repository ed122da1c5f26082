import type { IncomingMessage, ServerResponse } from 'node:http';
import { join } from 'node:path';
import { createBlobMetrics } from '../../foundation/telemetry/blob-metrics.ts';
import { noRemoteHealth } from '../../foundation/telemetry/remote-health.ts';
import type { createMetricsRegistry } from '../../foundation/telemetry.ts';
import { sendBlob } from '../../http/registry/blobs/send-blob.ts';
import { watchRight } from '../../http/registry/watch-right.ts';
import { createBlobRelays } from '../../pull/blobs/blob-relays.ts';
import { createNamelessIngest } from '../../pull/blobs/nameless-ingest.ts';
import type { ToRelay } from '../../pull/blobs/pulled-blob.ts';
import { createRelayedBlobs } from '../../pull/blobs/relayed-blobs.ts';
import { createTransfers } from '../../pull/blobs/transfers.ts';
import { SlabPool } from '../../storage/content/buffers.ts';
import { createUpstream, type UpstreamDeps } from '../assembly/upstream-clients.ts';

/** Relays blobs of other registries to clients, in place of the leader, which has checked their right. */
export interface RelayBlobs {
  /**
   * Sends a blob, and checks at intervals whether its receiver still has the right to it.
   *
   * @param look throws a `Fault` below 500 when the right has ended
   */
  send(
    order: ToRelay,
    request: IncomingMessage,
    response: ServerResponse,
    look: () => Promise<void>,
  ): Promise<void>;
}

export function createRelayBlobs(
  deps: UpstreamDeps,
  metrics: ReturnType<typeof createMetricsRegistry>,
): RelayBlobs {
  const { config, log } = deps;
  const slabs = new SlabPool();
  const { registry } = createUpstream(deps, slabs, noRemoteHealth);
  const { minFreeBytes } = config.disk;
  const files = createNamelessIngest(join(config.data, 'relays'), minFreeBytes, slabs, log);
  const relayed = createRelayedBlobs({
    registry,
    relays: createBlobRelays(createTransfers(files), config.cacheBytes),
    stallMs: config.upstream.stallTimeout,
    trustMs: config.upstream.trust,
  });
  const note = createBlobMetrics(metrics);
  return {
    async send({ blob, redirects }, request, response, look) {
      watchRight(response, config.rightLife, look);
      const answer = {
        isKnown: async () => true,
        size: (signal: AbortSignal) => relayed.size(blob, signal),
        open: (...[rangeOf, signal]: Parameters<Parameters<typeof sendBlob>[0]['open']>) =>
          relayed.open(blob, rangeOf, redirects, signal),
      };
      await sendBlob(answer, blob.digest, request, response, note);
    },
  };
}
