import { Fault, isDiskFull } from '../../foundation/fault.ts';
import { unlessAborted } from '../../foundation/work.ts';
import type { ByteSource } from '../../storage/content/byte-source.ts';
import type { FoundBlob } from './found-blob.ts';
import type { Transfers, WantedBlob } from './transfers.ts';
import { withoutCopy } from './without-copy.ts';

/**
 * Relays whole blobs that are not kept. The first client receives the bytes as they arrive. Other clients of the same
 * blob meanwhile share one more transfer, through a file that is removed with the last of them. So a blob has at most
 * two upstream transfers, and only one of them ever waits for a slow client. Where the registry redirects the first
 * client, each of the others gets its own redirect. When the disk fills up meanwhile,
 * each client gets its own transfer.
 */
export interface BlobRelays {
  /**
   * @param key the blob, its repository and the credentials of the request
   * @param direct opens the blob for one client alone
   */
  open(
    key: string,
    direct: () => Promise<FoundBlob>,
    wanted: Pick<WantedBlob, 'digest' | 'openWhole'>,
    size: number | undefined,
    signal: AbortSignal,
  ): Promise<FoundBlob>;
}

/** What became of the opening of a blob for its first client. `left`: the client left before. */
type Opened = FoundBlob['kind'] | 'left';

/** @param maxBytes disk space for all shared files; without space a client gets its own transfer */
export function createBlobRelays(transfers: Transfers, maxBytes: number): BlobRelays {
  const direct = new Map<string, Promise<Opened>>();
  const sharedBytes = new Map<string, number>();

  const isRoom = (key: string, size: number): boolean => {
    let total = size;
    for (const [other, bytes] of sharedBytes) {
      if (!transfers.has(other)) sharedBytes.delete(other);
      else if (other !== key) total += bytes;
    }
    return total <= maxBytes;
  };

  const openDirect = async (
    key: string,
    open: () => Promise<FoundBlob>,
    signal: AbortSignal,
  ): Promise<FoundBlob> => {
    const { promise, resolve, reject } = Promise.withResolvers<Opened>();
    // Maybe no other client waits for it.
    promise.catch(() => {});
    direct.set(key, promise);
    const end = () => {
      if (direct.get(key) === promise) direct.delete(key);
    };
    try {
      const blob = await open();
      if (blob.kind === 'redirect') end();
      resolve(blob.kind);
      return blob.kind === 'stream' ? { ...blob, source: whenDestroyed(blob.source, end) } : blob;
    } catch (error) {
      end();
      if (signal.aborted) resolve('left');
      else reject(error);
      throw error;
    }
  };

  const openShared: BlobRelays['open'] = async (key, open, wanted, size, signal) => {
    if (size === undefined || !isRoom(key, size)) return open();
    try {
      const joining = transfers.join(key, wanted, signal);
      sharedBytes.set(key, size);
      const reader = await joining;
      const { digest, openWhole } = wanted;
      const source = withoutCopy(reader.read(0, reader.size - 1), {
        digest,
        size: reader.size,
        openWhole: () => openWhole(signal),
      });
      return { kind: 'stream', size: reader.size, source, delivery: 'stored', isVerified: true };
    } catch (error) {
      if (isNoRoom(error)) return open();
      throw error;
    }
  };

  return {
    async open(key, open, wanted, size, signal) {
      // Of several clients that wait for one that leaves, the next one is the first.
      for (let first = direct.get(key); first; first = direct.get(key)) {
        const opened = await unlessAborted(first, signal);
        // An address is signed for one client, and may expire.
        if (opened === 'redirect') return open();
        if (opened === 'stream') return openShared(key, open, wanted, size, signal);
      }
      if (!transfers.has(key)) return openDirect(key, open, signal);
      return openShared(key, open, wanted, size, signal);
    },
  };
}

function isNoRoom(error: unknown): boolean {
  return isDiskFull(error) || (error instanceof Fault && error.kind === 'storage-full');
}

/** Returns the source; its reader destroys it in every case. */
function whenDestroyed(source: ByteSource, onDestroy: () => void): ByteSource {
  return {
    read: () => source.read(),
    destroy(reason) {
      onDestroy();
      source.destroy(reason);
    },
  };
}
