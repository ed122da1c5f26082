import { closeSync, openSync, readSync } from 'node:fs';
import { crc32 } from 'node:zlib';
import {
  type DeflateInstance,
  giveInstance,
  memberHeader,
  takeInstance,
  trailerBytes,
} from './deflate-instance.ts';

/** A gzip member of a layer. */
export interface ReadMember {
  readonly member: Buffer;
  readonly content: Buffer;
}

/**
 * Yields the members in the first bytes of a file that `createGzipWriter` has made: views that are valid until the next
 * one. Throws an error for a file that is damaged or shorter.
 */
export function* readMembers(path: string, bytes: number): Generator<ReadMember> {
  const instance = takeInstance();
  const file = openSync(path, 'r');
  try {
    for (let position = 0; position < bytes; ) {
      const most = Math.min(instance.member.length, bytes - position);
      const read = readSync(file, instance.member, 0, most, position);
      const next = firstMember(instance, read);
      if (next === undefined)
        throw new Error('a kept layer is damaged or shorter than its row says');
      position += next.member.length;
      yield next;
    }
  } finally {
    closeSync(file);
    giveInstance(instance);
  }
}

function firstMember(instance: DeflateInstance, size: number): ReadMember | undefined {
  const { member, stream, content } = instance;
  const { length: start } = memberHeader;
  if (size <= start || member.compare(memberHeader, 0, start, 0, start) !== 0) return undefined;
  member.copy(stream, 0, start, size);
  const used = instance.inflate(size - start);
  const end = start + used + trailerBytes;
  if (used === 0 || end > size) return undefined;
  const inflated = content.subarray(0, instance.inflated());
  const isRight =
    member.readUInt32LE(start + used) === crc32(inflated) &&
    member.readUInt32LE(start + used + 4) === inflated.length;
  return isRight ? { member: member.subarray(0, end), content: inflated } : undefined;
}
