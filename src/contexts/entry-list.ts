import { createGunzip, gzipSync } from 'node:zlib';
import { maxContextEntries, maxPathBytes } from '../archives/tar-limits.ts';
import type { WrittenEntry } from '../archives/tar-writer.ts';
import type { TreeEntry } from '../buildkit/index.ts';
import { Fault } from '../foundation/fault.ts';
import { pauseTurn } from '../foundation/pause-turn.ts';

const newline = 0x0a;
// JSON may escape each byte of a path, or of a link target, as six bytes.
const maxLineBytes = 64 * 1024;
const maxListBytes = 256 * 1024 * 1024;

/** Writes the list of entries: one JSON object per line, in the order of the content. */
export function writeEntries(entries: readonly ContextEntry[]): Buffer {
  const lines = entries.map(({ path, kind, mode, size, target }) =>
    JSON.stringify({
      path,
      kind,
      mode,
      ...(kind === 'file' ? { size } : {}),
      ...(kind === 'symlink' || kind === 'link' ? { target } : {}),
    }),
  );
  return gzipSync(lines.map(line => `${line}\n`).join(''));
}

/** Reads a list of entries. Throws a {@link Fault} (400) for a list that is malformed or too long. */
export async function readEntries(gzip: AsyncIterable<Uint8Array>): Promise<ContextEntry[]> {
  const entries: ContextEntry[] = [];
  for await (const lines of linesOf(unpackedList(gzip))) {
    if (entries.length + lines.length > maxContextEntries) {
      throw refused(`has more than ${maxContextEntries} files and directories`);
    }
    for (const line of lines) entries.push(entryOf(line));
    await pauseTurn();
  }
  return entries;
}

async function* unpackedList(gzip: AsyncIterable<Uint8Array>): AsyncGenerator<Buffer> {
  const gunzip = createGunzip();
  const fed = (async () => {
    for await (const piece of gzip) {
      if (gunzip.destroyed) return;
      if (!gunzip.write(piece)) {
        await new Promise<void>(resolve => {
          gunzip.once('drain', resolve);
          gunzip.once('close', resolve);
        });
      }
    }
    gunzip.end();
  })();
  fed.catch(error => gunzip.destroy(error));
  let size = 0;
  try {
    for await (const piece of gunzip) {
      size += piece.length;
      if (size > maxListBytes) throw refused(`is longer than ${maxListBytes} bytes`);
      yield piece;
    }
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code?.startsWith('Z_')) throw refused('is not a gzip file', error);
    throw error;
  }
}

/** Yields the lines of each piece. */
async function* linesOf(pieces: AsyncIterable<Buffer>): AsyncGenerator<string[]> {
  let rest: Buffer = Buffer.alloc(0);
  for await (const piece of pieces) {
    const bytes = rest.length > 0 ? Buffer.concat([rest, piece]) : piece;
    const lines: string[] = [];
    let start = 0;
    for (let end = bytes.indexOf(newline); end >= 0; end = bytes.indexOf(newline, start)) {
      lines.push(bytes.toString('utf8', start, end));
      start = end + 1;
    }
    yield lines;
    rest = bytes.subarray(start);
    if (rest.length > maxLineBytes) throw refused('has a line that is too long');
  }
  if (rest.length > 0) throw refused('does not end with a line break');
}

function entryOf(line: string): ContextEntry {
  const { path, kind, mode, size = 0, target } = objectIn(line);
  const isText = isPath(path);
  const isMode = isWhole(mode) && mode <= 0o7777;
  if (!isText || !isMode || !isWhole(size)) throw malformed(line);
  if (kind === 'file') return { path, kind, mode, size };
  if (size !== 0) throw malformed(line);
  if (kind === 'directory') return { path, kind, mode, size };
  if ((kind !== 'symlink' && kind !== 'link') || !isPath(target)) throw malformed(line);
  return { path, kind, mode, size, target };
}

function objectIn(line: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(line);
    if (typeof value === 'object' && value !== null) return value as Record<string, unknown>;
  } catch {
    // Reported below.
  }
  throw malformed(line);
}

function isPath(value: unknown): value is string {
  return typeof value === 'string' && value !== '' && Buffer.byteLength(value) <= maxPathBytes;
}

function isWhole(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

function malformed(line: string): Fault {
  const shown = line.slice(0, 120).replace(/\p{Cc}/gu, '?');
  return refused(`has a malformed line: ${shown}`);
}

function refused(what: string, cause?: unknown): Fault {
  return new Fault('bad-request', `The list of the build context's files ${what}`, {
    phase: 'build',
    cause,
  });
}

/** A file, directory or link of a build context. Times and owners are absent: they do not change a build. */
export interface ContextEntry extends Pick<TreeEntry, 'mode' | 'size' | 'target'> {
  /** A `link`, a hard link, is a further name of the file `target`, which comes before it. Its size is 0. */
  readonly kind: TreeEntry['kind'] | 'link';
  /** Path relative to the root of the context, such as `a/b`. */
  readonly path: string;
}

/** Media types of an uploaded build context. The format is described in docs/adr/0041. */
export const contextTypes = {
  artifact: 'application/vnd.sluice.context.v1',
  /** Type of the config: the list of entries. */
  list: 'application/vnd.sluice.context.list.v1.jsonl+gzip',
  /** Type of the layers: the concatenated content of all files, split into blobs. */
  content: 'application/vnd.sluice.context.content.v1',
} as const;

/** Returns an entry as it appears in the tar file whose digest identifies a build context. */
export function tarEntryOf({ path, kind, mode, size, target = '' }: ContextEntry): WrittenEntry {
  return kind === 'file' ? { path, kind, mode, size } : { path, kind, mode, link: target };
}
