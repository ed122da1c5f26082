import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import { crc32, inflateRaw } from 'node:zlib';
import { zipBytes, zipEndIn, zipEntryAt, zipSignatures } from '../../archives/zip-records.ts';
import { Fault } from '../../foundation/fault.ts';
import { Semaphore } from '../../foundation/semaphore.ts';
import { type IndexAccess, IndexFault, readBody } from './index-access.ts';
import type { PublishedFile } from './index-page.ts';
import type { KeptFiles } from './kept-files.ts';

/** The metadata of wheels: kept ones, those beside a wheel, or what stands in it, for the many indexes that have none beside it. */
export interface WheelMetadataSource {
  /**
   * Returns the metadata of a listed wheel; those out of a wheel end before the description. Throws {@link MetadataMissing} for a wheel
   * that cannot be read in parts, and a `Fault` for an index that is down.
   */
  read(file: PublishedFile, fetching: Fetching): Promise<Buffer>;
}

interface Fetching {
  readonly signal: AbortSignal;
  /** Who reads. A host that sends slowly holds up the reads of this caller alone. */
  readonly caller: string;
  /** Receives how many bytes come from the index; may throw. */
  readonly onBytes: (count: number) => void;
}

/** An index has no metadata beside a wheel, and the wheel has none that can be read in parts. A solver may read all of it. */
export class MetadataMissing extends Error {}

/** Statuses of servers that do not send parts, and of a wheel that is shorter than the page says. */
const withoutParts: readonly (number | undefined)[] = [400, 405, 416, 501];

const inflate = promisify(inflateRaw);
/** More than that of any package; a wheel with more is not installed. Kept ones and those for a solver are as large at most. */
const maxBytes = 1024 * 1024;
/** Of a list of members: that of 100,000 has as much. */
const maxListBytes = 12 * 1024 * 1024;
/** Each has a few megabytes at most. */
const readsOfCaller = 8;
/** Of two solvers at once. */
const readsAtOnce = 16;
/** The end of a wheel, in which most have their whole list of members. */
const tailBytes = 48 * 1024;
/** Of a longer list, which is read from its end: that is where metadata are. */
const listPartBytes = 1024 * 1024;
const metadataEnd = '.dist-info/METADATA';

export function createWheelMetadataSource(deps: {
  readonly access: Pick<IndexAccess, 'open' | 'settingsOf'>;
  readonly kept: KeptFiles;
}): WheelMetadataSource {
  const turns = new Semaphore({ limit: readsAtOnce, perKey: readsOfCaller });

  const open = async (url: string, headers: Record<string, string>, { signal }: Fetching) =>
    deps.access.open(url, { headers, signal });

  /** Returns the metadata beside a wheel; undefined where the index does not show them, or others than it states. */
  const readBeside = async (file: PublishedFile, fetching: Fetching) => {
    const url = new URL(file.url);
    url.pathname += '.metadata';
    const what = `the metadata of ${file.fileName}`;
    const whole = { maxBytes, what, url: url.href, signal: fetching.signal };
    let bytes: Buffer;
    try {
      bytes = await readUpTo(await open(url.href, {}, fetching), whole);
    } catch (error) {
      if (error instanceof MetadataMissing) return undefined;
      const status = error instanceof IndexFault ? error.responseStatus : undefined;
      if ([401, 403, 404, 410].includes(status ?? 0)) return undefined;
      throw error;
    }
    fetching.onBytes(bytes.length);
    return isMetadata(bytes, file) ? fieldsOf(bytes) : undefined;
  };

  /** Returns some bytes of a wheel, and how many it has. */
  const readPart = async (
    { url, fileName }: PublishedFile,
    { start, bytes }: { readonly start: number; readonly bytes: number },
    fetching: Fetching,
  ): Promise<{ part: Buffer; total: number }> => {
    const range = `bytes=${start}-${start + bytes - 1}`;
    const response = await open(url, { range }, fetching).catch(error => {
      const isWhole = error instanceof IndexFault && withoutParts.includes(error.responseStatus);
      throw isWhole ? new MetadataMissing('', { cause: error }) : error;
    });
    const { status, headers, body } = response;
    const [, first, total] =
      /^bytes (\d{1,15})-\d{1,15}\/(\d{1,15})$/.exec(headers.get('content-range') ?? '') ?? [];
    if (status !== 206 || Number(first) !== start) {
      body.destroy();
      throw new MetadataMissing();
    }
    const what = `a part of ${fileName}`;
    const { signal } = fetching;
    // Some servers send all of it.
    const part = await readUpTo(response, { maxBytes: bytes, what, url, signal });
    fetching.onBytes(part.length);
    return { part, total: Number(total) };
  };

  const readInside = async (file: PublishedFile, fetching: Fetching): Promise<Buffer> => {
    const part = (start: number, bytes: number) => readPart(file, { start, bytes }, fetching);
    const readTail = (size: number) => {
      const bytes = Math.min(size, tailBytes);
      return part(size - bytes, bytes);
    };
    const listed = file.size ?? (await part(0, 1)).total;
    let { part: tail, total } = await readTail(listed);
    // Some indexes list another size.
    if (total !== listed) ({ part: tail, total } = await readTail(total));
    const list = listIn(tail, total);
    return fieldsAt(await entryBefore(total - tail.length, tail, { list, part }), list.start, part);
  };

  return {
    async read(file, fetching) {
      const { url, metadata, digest } = file;
      using _turn = await turns.take({ key: fetching.caller, signal: fetching.signal });
      // With the settings, as pages are.
      const settings = deps.access.settingsOf(url) ?? null;
      const path = deps.kept.pathOf(JSON.stringify(['metadata', settings, url, metadata, digest]));
      const kept = await readChecked(path);
      if (kept !== undefined) return kept;
      const beside = metadata === 'inside' ? undefined : await readBeside(file, fetching);
      const bytes = beside ?? (await readInside(file, fetching));
      await deps.kept.write(path, [sha256Of(bytes), bytes]);
      return bytes;
    },
  };
}

/** Returns the whole body. Throws {@link MetadataMissing} for one with more bytes. */
async function readUpTo(...[response, whole]: Parameters<typeof readBody>): Promise<Buffer> {
  try {
    return await readBody(response, whole);
  } catch (cause) {
    const isLonger = cause instanceof Fault && !(cause instanceof IndexFault);
    throw isLonger ? new MetadataMissing('', { cause }) : cause;
  }
}

function sha256Of(bytes: Uint8Array): Buffer {
  return createHash('sha256').update(bytes).digest();
}

/** Returns what was written after its SHA-256; undefined where it was not written to its end. */
async function readChecked(path: string): Promise<Buffer | undefined> {
  const bytes = await readFile(path).catch(() => undefined);
  const content = bytes?.subarray(32);
  return content && bytes?.subarray(0, 32).equals(sha256Of(content)) ? content : undefined;
}

/** Returns whether a response is what the index states, or looks like metadata where it states nothing. */
function isMetadata(bytes: Buffer, { metadata, digest }: PublishedFile): boolean {
  if (metadata === 'stated') return sha256Of(bytes).toString('hex') === digest;
  return bytes.subarray(0, 1000).includes('Metadata-Version:');
}

interface Place {
  readonly start: number;
  readonly bytes: number;
}

/** Returns where the list of members of a zip file is. Source: PKWARE APPNOTE 6.3.9, 4.3.16; one of ZIP64 is not read in parts. */
function listIn(tail: Buffer, total: number): Place {
  const end = zipEndIn(tail);
  if (!end || end.size > maxListBytes || end.start + end.size > total) throw new MetadataMissing();
  return { start: end.start, bytes: end.size };
}

type ReadPart = (start: number, bytes: number) => Promise<{ readonly part: Buffer }>;

/**
 * Returns the entry of the `METADATA` in a list of members. All else is passed over: what a wheel contains is checked before it is
 * installed. The list is looked through from its end, of which the given tail of the wheel has some.
 */
async function entryBefore(
  tailStart: number,
  tail: Buffer,
  { list, part }: { readonly list: Place; readonly part: ReadPart },
): Promise<ZipEntry> {
  const { start, bytes } = list;
  let from = Math.max(start, tailStart);
  let found = entryIn(tail.subarray(from - tailStart, Math.max(0, start + bytes - tailStart)));
  while (found === undefined && from > start) {
    // An entry can begin in one part and end in the next.
    const end = Math.min(start + bytes, from + longestEntry);
    from = Math.max(start, end - listPartBytes);
    found = entryIn((await part(from, end - from)).part);
  }
  if (found === undefined) throw new MetadataMissing();
  return found;
}

/** Returns the fields of the `METADATA` of an entry. The list of members begins at an offset of the wheel. */
async function fieldsAt(
  { offset, packedSize, size, method, crc32: crc, nameLength }: ZipEntry,
  limit: number,
  part: ReadPart,
): Promise<Buffer> {
  // Its own copy of the name, and fields that only it has, are before the content.
  const around = zipBytes.local + nameLength + maxExtraBytes;
  const bytes = Math.min(around + packedSize, limit - offset);
  if (packedSize > maxBytes || size > maxBytes || bytes < zipBytes.local)
    throw new MetadataMissing();
  const { part: found } = await part(offset, bytes);
  if (found.length < zipBytes.local || found.readUInt32LE(0) !== zipSignatures.local) {
    throw new MetadataMissing();
  }
  const start = zipBytes.local + found.readUInt16LE(26) + found.readUInt16LE(28);
  const content = found.subarray(start, start + packedSize);
  const text = method === 0 ? content : await unpacked(content);
  if (text.length !== size || crc32(text) !== crc) throw new MetadataMissing();
  return fieldsOf(text);
}

const maxExtraBytes = 4096;

type ZipEntry = ReturnType<typeof zipEntryAt>;

/** Returns the entry of the `METADATA` in some bytes of a list; undefined where they have none. */
function entryIn(list: Buffer): ZipEntry | undefined {
  let at = 0;
  for (let looked = 0; looked < mostLikeIt; looked += 1) {
    const found = list.indexOf(metadataEnd, at);
    if (found < 0) break;
    at = found + metadataEnd.length;
    const from = Math.max(0, found - zipBytes.entry - longestStem);
    const entry = from + list.subarray(from, found).lastIndexOf(signatureBytes);
    if (entry < from || entry + zipBytes.entry > found) continue;
    const member = zipEntryAt(list, entry);
    const stem = list.toString('latin1', entry + zipBytes.entry, found);
    if (entry + zipBytes.entry + member.nameLength === at && !stem.includes('/')) return member;
  }
  return undefined;
}

const longestStem = 500;
const longestEntry = zipBytes.entry + longestStem + metadataEnd.length;
/** Packages can contain others with their metadata. */
const mostLikeIt = 2000;
const signatureBytes = Buffer.alloc(4);
signatureBytes.writeUInt32LE(zipSignatures.entry);

async function unpacked(content: Buffer): Promise<Buffer> {
  try {
    return await inflate(content, { maxOutputLength: maxBytes });
  } catch (cause) {
    throw new MetadataMissing('', { cause });
  }
}

/** The description, which no solver reads, is most of it. */
function fieldsOf(text: Buffer): Buffer {
  const ends = ['\n\n', '\n\r\n'].map(end => text.indexOf(end)).filter(at => at >= 0);
  return ends.length === 0 ? text : text.subarray(0, Math.min(...ends) + 1);
}
