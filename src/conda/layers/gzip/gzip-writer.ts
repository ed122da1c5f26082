import { crc32 } from 'node:zlib';
import { giveInstance, memberBytes, memberHeader, takeInstance } from './deflate-instance.ts';

/**
 * Compresses bytes as gzip members, for layers. The same bytes give the same members on every machine, whatever the
 * sizes of the pieces. It computes on the thread that calls it: about 80 MB a second.
 */
export interface GzipWriter extends Disposable {
  /** Takes the next bytes, of any length. */
  write(bytes: Uint8Array): void;
  /** Ends the last member. What is written next begins a new one. */
  end(): void;
}

/** @param put receives each member: a view that is valid until it returns */
export function createGzipWriter(put: (member: Buffer) => void): GzipWriter {
  const instance = takeInstance();
  const { deflate, content, stream, member } = instance;
  let size = 0;

  const end = (): void => {
    if (size === 0) return;
    const deflated = deflate.compress(size);
    memberHeader.copy(member);
    stream.copy(member, memberHeader.length, 0, deflated);
    const sum = crc32(content.subarray(0, size));
    const at = member.writeUInt32LE(sum, memberHeader.length + deflated);
    const length = member.writeUInt32LE(size, at);
    size = 0;
    put(member.subarray(0, length));
  };

  return {
    write(bytes) {
      for (let from = 0; from < bytes.length; ) {
        const piece = bytes.subarray(from, from + memberBytes - size);
        content.set(piece, size);
        size += piece.length;
        from += piece.length;
        if (size === memberBytes) end();
      }
    },
    end,
    [Symbol.dispose]: () => giveInstance(instance),
  };
}
