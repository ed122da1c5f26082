import type { IncomingMessage, ServerResponse } from 'node:http';
import { join } from 'node:path';
import { boundedCache } from '../../foundation/bounded-cache.ts';
import {
  createBlobMetrics,
  type createMetricsRegistry,
  type NoteBlob,
  noRemoteHealth,
} from '../../foundation/telemetry/index.ts';
import { rememberSuccess } from '../../foundation/work.ts';
import { type OfferedBlob, sendBlob, watchRight } from '../../http/registry/index.ts';
import type { Digest } from '../../oci/digest.ts';
import {
  type BlobOrder,
  createBlobRelays,
  createNamelessIngest,
  createRelayedBlobs,
  createTransfers,
  type RelayedBlobs,
} from '../../pull/index.ts';
import { type ByteSource, begun } from '../../storage/content/byte-source.ts';
import { SlabPool } from '../../storage/content/index.ts';
import { openContentReader } from '../../storage/index.ts';
import type { ContentReader } from '../../storage/objects/index.ts';
import { createUpstream, type UpstreamDeps } from '../assembly/registry-clients.ts';

/** Sends blobs to clients, in place of the leader, which has checked their right. */
export interface OrderedBlobs {
  /** Opens the content of the site to read from. */
  content(): Promise<ContentReader>;
  /** Returns the source, which notes that the content cannot be read, so that the client's next attempt is the leader's. */
  notingFailures(source: ByteSource, digest: Digest): ByteSource;
  /** Passes on blobs of other registries. */
  readonly relayed: RelayedBlobs;
  /** Counts sent blobs. */
  readonly note: NoteBlob;
  /** Returns false for a blob that this server failed to read a short time ago: the leader sends it, and finds out why. */
  accepts(digest: string): boolean;
  /**
   * Sends a blob, and checks at intervals whether its receiver still has the right to it.
   *
   * @param checkRight throws a `Fault` below 500 when the right has ended
   */
  send(
    order: BlobOrder,
    request: IncomingMessage,
    response: ServerResponse,
    checkRight: () => Promise<void>,
  ): Promise<void>;
  close(): void;
}

const mostFailed = 1000;
const failedMs = 600_000;

export function createOrderedBlobs(
  deps: UpstreamDeps,
  metrics: ReturnType<typeof createMetricsRegistry>,
): OrderedBlobs {
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
  const failed = boundedCache<string, true>(mostFailed, { ttl: failedMs });
  const reader = rememberSuccess(() =>
    openContentReader({ ...config, proxyFor: deps.proxyFor }, config.scrub.trust),
  );

  const notingFailures = (source: ByteSource, digest: Digest): ByteSource => {
    let hasLeft = false;
    return {
      read: () =>
        source.read().catch(err => {
          if (!hasLeft) {
            failed.set(digest, true);
            log.warn({ digest, err }, 'content cannot be read: the leader sends it');
          }
          throw err;
        }),
      destroy(reason) {
        hasLeft = true;
        source.destroy(reason);
      },
    };
  };

  const offerOf = (order: BlobOrder): OfferedBlob => {
    if (order.kind === 'relayed') {
      const { blob, redirects } = order;
      return {
        isKnown: async () => true,
        size: signal => relayed.size(blob, signal),
        open: (rangeOf, signal) => relayed.open(blob, rangeOf, redirects, signal),
      };
    }
    const { digest, size } = order;
    return {
      isKnown: async () => true,
      size: async () => size,
      async open(rangeOf) {
        const { start, end } = rangeOf?.(size) ?? { start: 0, end: size - 1 };
        // What cannot be read at all fails before the head of the response.
        const source = await begun(
          notingFailures((await reader.get()).open(digest, start, end), digest),
        );
        return { kind: 'stream', size, source, delivery: 'stored', isVerified: true };
      },
    };
  };

  return {
    content: reader.get,
    notingFailures,
    relayed,
    note,
    accepts: digest => !failed.has(digest),
    async send(order, request, response, checkRight) {
      const { digest } = order.kind === 'relayed' ? order.blob : order;
      if (order.kind === 'relayed' || order.isWatched) {
        watchRight(response, config.rightLife, checkRight);
      }
      await sendBlob(offerOf(order), digest, request, response, note);
    },
    close() {
      reader.begun()?.then(
        open => open.close(),
        () => {},
      );
    },
  };
}
