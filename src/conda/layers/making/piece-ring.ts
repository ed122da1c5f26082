import { mostMemberBytes } from '../gzip/gzip-members.ts';

/** Receives a layer piece by piece. A piece has at most {@link mostMemberBytes}, and is valid until the call returns. */
export type PutPiece = (piece: Uint8Array) => void;

/** Pieces of a layer on their way from a thread to the main thread: memory that both share, so nothing is left over. */
export interface PieceRing {
  /** Room for {@link mostAhead} pieces of at most {@link mostMemberBytes}. */
  readonly bytes: Uint8Array;
  /** One number: how many pieces the main thread has taken. The thread waits when there is no room for another one. */
  readonly taken: Int32Array;
}

/** Pieces that a thread may be ahead. */
const mostAhead = 3;
export const ringBytes = mostAhead * mostMemberBytes;

/** Returns a ring with its count at 0. `bytes` may have served another ring that nothing uses any more. */
export function openRing(
  bytes: Uint8Array = new Uint8Array(new SharedArrayBuffer(ringBytes)),
): PieceRing {
  return { bytes, taken: new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT)) };
}

function pieceIn({ bytes }: PieceRing, count: number, size: number): Uint8Array {
  const start = (count % mostAhead) * mostMemberBytes;
  return bytes.subarray(start, start + size);
}

/**
 * Returns a function that puts pieces into the ring. It blocks its thread while the ring has no room.
 *
 * @param sent receives the bytes of each piece, in order, for {@link takePieces}
 */
export function sendPieces(ring: PieceRing, sent: (size: number) => void): PutPiece {
  let count = 0;
  return piece => {
    for (;;) {
      const now = Atomics.load(ring.taken, 0);
      if (count - now < mostAhead) break;
      Atomics.wait(ring.taken, 0, now);
    }
    pieceIn(ring, count, piece.length).set(piece);
    count += 1;
    sent(piece.length);
  };
}

/**
 * Returns a function to call with the bytes of each piece that was sent. It returns a promise of the moment when this
 * piece was taken, or of the first failure of `take`.
 *
 * @param take receives views that are valid until it resolves, when the next call comes
 */
export function takePieces(
  ring: PieceRing,
  take: (piece: Uint8Array) => Promise<void>,
): (size: number) => Promise<void> {
  let count = 0;
  let taking = Promise.resolve();
  return size => {
    const piece = pieceIn(ring, count, size);
    count += 1;
    taking = taking.then(async () => {
      await take(piece);
      Atomics.add(ring.taken, 0, 1);
      Atomics.notify(ring.taken, 0);
    });
    return taking;
  };
}
