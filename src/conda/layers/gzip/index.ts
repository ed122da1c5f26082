/** Compresses layers in pieces, on threads with room for them. */

export { inRoom, takeRoom, threadNeeds } from '../../threads/thread-room.ts';
export { openRing, type PieceRing, sendPieces, takePieces } from '../making/piece-ring.ts';
export { createGzipWriter, memberBytes } from './gzip-members.ts';
