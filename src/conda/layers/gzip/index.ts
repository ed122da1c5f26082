/** Compresses layers in pieces, on threads with room for them. */

export { inRoom, threadNeeds } from '../../threads/thread-room.ts';
export { openRing, type PieceRing, sendPieces, takePieces } from '../making/piece-ring.ts';
export { memberBytes } from './deflate-instance.ts';
export { createGzipWriter } from './gzip-writer.ts';
