import { type Deflate, openDeflate } from '../../../archives/deflate/deflate.ts';

/** Memory to compress or to decompress one member after another. */
export interface DeflateInstance extends Deflate {
  /** Room for any member. */
  readonly member: Buffer;
}

/**
 * Uncompressed bytes of a member. A change, like one of the level, changes every layer: see `layerVersion`.
 */
export const memberBytes = 1024 * 1024;
const level = 5;

/** RFC 1952: magic, deflate, no flags, no time, no extra flags, unknown operating system. */
export const memberHeader = Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff]);
export const trailerBytes = 8;
/** Bytes that a member has at most: incompressible content is stored, with 5 more for each 64 KiB. */
export const mostMemberBytes = memberBytes + 1024;

/** The last instance of this thread: each layer would leave its memory for the garbage collector. */
let spare: DeflateInstance | undefined;

/** Returns an instance with its own memory, about 4 MB. */
export function takeInstance(): DeflateInstance {
  const instance = spare ?? open();
  spare = undefined;
  return instance;
}

/** Takes back an instance that is not used any more. */
export function giveInstance(instance: DeflateInstance): void {
  spare = instance;
}

function open(): DeflateInstance {
  const deflate = openDeflate(level, memberBytes, mostMemberBytes - memberHeader.length);
  return { ...deflate, member: Buffer.allocUnsafeSlow(mostMemberBytes) };
}
