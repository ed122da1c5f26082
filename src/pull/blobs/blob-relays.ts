import { Fault, isDiskFull } from '../../foundation/fault.ts';
import type { ByteSource } from '../../storage/content/byte-source.ts';
import type { FoundBlob } from './found-blob.ts';
import type { Transfers, WantedBlob } from './transfers.ts';

/**
 * Relays whole blobs that are not kept. The first client receives the bytes as they arrive. Other clients of the same
 * blob meanwhile share one more transfer, through a file that is removed with the last of them. So a blob has at most
 * two upstream transfers, and only one of them ever waits for a slow client.
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

/** @param maxBytes disk space for all shared files; without space a client gets its own transfer */
export function createBlobRelays(transfers: Transfers, maxBytes: number): BlobRelays {
  const direct = new Set<string>();
  const sharedBytes = new Map<string, number>();

  const isRoom = (key: string, size: number): boolean => {
    let total = size;
    for (const [other, bytes] of sharedBytes) {
      if (!transfers.has(other)) sharedBytes.delete(other);
      else if (other !== key) total += bytes;
    }
    return total <= maxBytes;
  };

  const openDirect = async (key: string, open: () => Promise<FoundBlob>): Promise<FoundBlob> => {
    direct.add(key);
    try {
      const blob = await open();
      if (blob.kind === 'stream') {
        return { ...blob, source: whenDestroyed(blob.source, () => direct.delete(key)) };
      }
      direct.delete(key);
      return blob;
    } catch (error) {
      direct.delete(key);
      throw error;
    }
  };

  return {
    async open(key, open, wanted, size, signal) {
      if (!direct.has(key) && !transfers.has(key)) return openDirect(key, open);
      if (size === undefined || !isRoom(key, size)) return open();
      try {
        const joining = transfers.join(key, wanted, signal);
        sharedBytes.set(key, size);
        const reader = await joining;
        const source = reader.read(0, reader.size - 1);
        return { kind: 'stream', size: reader.size, source, way: 'stored', isVerified: true };
      } catch (error) {
        if (isNoRoom(error)) return open();
        throw error;
      }
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
