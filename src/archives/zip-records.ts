/** The first bytes of each kind of record. Source: PKWARE APPNOTE 6.3.9, 4.3. */
export const zipSignatures = { end: 0x06054b50, entry: 0x02014b50, local: 0x04034b50 } as const;
/** Bytes of each kind of record, without its name, its extra fields and its comment. */
export const zipBytes = { end: 22, entry: 46, local: 30 } as const;

/** Returns the last record of a zip file and its offset in the tail of the file; undefined where there is none. */
export function zipEndIn(tail: Buffer) {
  for (let at = tail.length - zipBytes.end; at >= 0; at -= 1) {
    if (tail.readUInt32LE(at) !== zipSignatures.end) continue;
    if (at + zipBytes.end + tail.readUInt16LE(at + 20) !== tail.length) continue;
    return {
      at,
      disks: tail.readUInt32LE(at + 4),
      count: tail.readUInt16LE(at + 10),
      size: tail.readUInt32LE(at + 12),
      start: tail.readUInt32LE(at + 16),
    };
  }
  return undefined;
}

/** Returns the numbers of a member in the list of members of a zip file. Those of ZIP64 do not fit, and are elsewhere. */
export function zipEntryAt(list: Buffer, at: number) {
  return {
    method: list.readUInt16LE(at + 10),
    crc32: list.readUInt32LE(at + 16),
    packedSize: list.readUInt32LE(at + 20),
    size: list.readUInt32LE(at + 24),
    nameLength: list.readUInt16LE(at + 28),
    offset: list.readUInt32LE(at + 42),
  };
}
