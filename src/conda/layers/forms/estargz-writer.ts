import { createHash, type Hash } from 'node:crypto';
import { type TarEntry, type TarVisitor, textOfBytes } from '../../../archives/index.ts';
import { tarEnd, tarPadding, ustarHeader } from '../../../archives/tar-writer.ts';
import type { Digest } from '../../../oci/digest.ts';
import { createGzipWriter, type GzipWriter, memberBytes } from '../gzip/gzip-members.ts';
import type { PutPiece } from '../making/piece-ring.ts';
import { type TocLimits, TocText } from './toc-text.ts';

/** What a layer in the eStargz form is known by. */
export interface WrittenEstargz {
  /** Digest of the tar file inside, which has the table of contents. */
  readonly tarDigest: Digest;
  readonly tarBytes: number;
  readonly tocDigest: Digest;
}

/**
 * Bytes of a file that a client can fetch and verify by themselves. A gzip member has as many, so that each chunk is one.
 */
const chunkBytes = memberBytes;
/** Marks a layer of which a client fetches nothing in advance: nobody knows what a program will read first. */
const landmark = '.no.prefetch.landmark';
const landmarkContent = Buffer.from([0xf]);
const tocName = 'stargz.index.json';
/** Files of the form itself. A layer that had it before may have them. */
export const formFiles: readonly string[] = [tocName, landmark, '.prefetch.landmark'];
const tocKinds = { file: 'reg', directory: 'dir', symlink: 'symlink', link: 'hardlink' } as const;

/** An entry to write. */
export interface EstargzEntry {
  /** All that the tar file has of it before its content. */
  readonly header: Uint8Array;
  /** Its members in the table, as {@link membersOf} returns them; undefined for an entry that the table leaves out. */
  readonly about: string | undefined;
  /** For a file. */
  readonly file?: { readonly name: string; readonly size: number } | undefined;
}

/** The file whose content is written. */
interface OpenFile {
  readonly name: string;
  readonly size: number;
  readonly digest: Hash;
  /** Members of its entry in the table before the chunks. */
  readonly about: string;
  /** Remaining bytes of its content. */
  left: number;
  chunks: Chunk[];
}

interface Chunk {
  /** Position of its gzip member in the layer. */
  readonly offset: number;
  readonly hash: Hash;
  bytes: number;
  digest: string;
}

/**
 * Writes the entries of a layer of packages in the eStargz form: each file, or each mebibyte of one, begins a gzip member,
 * and a table of contents at the end has the positions and the digests. Lazy clients fetch the table, and then what is
 * read. Others see a gzip file with three more files in its tar file. Directories that occur again are left out: the table
 * has one entry for each path.
 * Source: stargz-snapshotter, docs/estargz.md.
 */
export class EstargzWriter implements TarVisitor, Disposable {
  readonly #gzip: GzipWriter;
  readonly #hash = createHash('sha256');
  readonly #toc: TocText;
  readonly #put: PutPiece;
  readonly #directories = new Set<string>();
  #file: OpenFile | undefined;
  #tarBytes = 0;
  /** Bytes of the layer so far, apart from what the open member has. */
  #layerBytes = 0;
  #hasEntries = false;

  /** @param limits of the table of contents. Default: none, for packages, whose number of files is limited */
  constructor(put: PutPiece, level: number, limits?: TocLimits) {
    this.#toc = new TocText(limits);
    this.#put = piece => {
      this.#layerBytes += piece.length;
      put(piece);
    };
    this.#gzip = createGzipWriter(this.#put, { level });
    this.#toc.add('{"version":1,"entries":[');
    const entry = { path: landmark, kind: 'file', mode: 0o644, mtime: 0, link: '' } as const;
    this.entry({ ...entry, size: landmarkContent.length });
    this.content(landmarkContent);
    this.content(tarPadding(landmarkContent.length));
  }

  entry(entry: TarEntry): boolean {
    const { kind, size, attributes, owner, isSparse } = entry;
    const type = (tocKinds as Partial<Record<TarEntry['kind'], string>>)[kind];
    // Layers of packages have nothing else: the table would have to say it also.
    if (type === undefined || attributes || isSparse || owner?.uid || owner?.gid) {
      throw new Error('an entry of a kind that layers of packages do not have');
    }
    const path = textOfBytes(entry.path);
    if (kind === 'directory') {
      if (this.#directories.has(path)) return false;
      this.#directories.add(path);
    }
    const link = textOfBytes(entry.link);
    const named = { ...entry, path: path.replace(/\/$/, ''), link };
    const about = membersOf({
      name: path,
      type,
      size,
      modtime: timeOf(entry),
      linkName: link,
      mode: entry.mode,
    });
    const file = kind === 'file' ? { name: path, size } : undefined;
    this.begin({ header: ustarHeader(named), about, file });
    return size > 0;
  }

  /** Begins an entry of any kind. The content of a file follows, with its padding. */
  begin({ header, about, file }: EstargzEntry): void {
    this.#write(header);
    if (about === undefined) return;
    if (!file) this.#note(about);
    else if (file.size === 0) this.#note(`${about},"digest":"${emptyDigest}"`);
    else this.#file = { ...file, digest: createHash('sha256'), about, left: file.size, chunks: [] };
  }

  content(bytes: Buffer): void {
    let at = 0;
    while (this.#file && at < bytes.length) at += this.#writeContent(this.#file, bytes, at);
    this.#write(bytes.subarray(at));
  }

  /** Ends the layer. */
  end(): WrittenEstargz {
    this.#gzip.end();
    const tocOffset = this.#layerBytes;
    this.#toc.add(']}');
    const tocDigest = `sha256:${this.#toc.digest()}` as Digest;
    this.#gzip.single(this.#tocEntry());
    this.#put(footer(tocOffset));
    const tarDigest = `sha256:${this.#hash.digest('hex')}` as Digest;
    return { tarDigest, tarBytes: this.#tarBytes, tocDigest };
  }

  [Symbol.dispose](): void {
    this.#gzip[Symbol.dispose]();
  }

  #write(bytes: Uint8Array): void {
    this.#gzip.write(this.#counted(bytes));
  }

  #counted(bytes: Uint8Array): Uint8Array {
    this.#tarBytes += bytes.length;
    this.#hash.update(bytes);
    return bytes;
  }

  /** Writes what the open chunk of a file still takes; returns the number of bytes. */
  #writeContent(file: OpenFile, bytes: Buffer, at: number): number {
    let chunk = file.chunks.at(-1);
    if (chunk === undefined || chunk.bytes === chunkBytes) {
      this.#gzip.end();
      const offset = this.#layerBytes;
      chunk = { offset, hash: createHash('sha256'), bytes: 0, digest: '' };
      file.chunks.push(chunk);
    }
    const size = Math.min(bytes.length - at, file.left, chunkBytes - chunk.bytes);
    const piece = bytes.subarray(at, at + size);
    chunk.hash.update(piece);
    chunk.bytes += size;
    file.left -= size;
    if (file.size > chunkBytes) file.digest.update(piece);
    this.#write(piece);
    if (chunk.bytes === chunkBytes || file.left === 0) {
      chunk.digest = `sha256:${chunk.hash.digest('hex')}`;
    }
    if (file.left === 0) this.#noteFile(file);
    return size;
  }

  #noteFile({ about, name, digest, chunks }: OpenFile): void {
    this.#file = undefined;
    const [first, ...others] = chunks as [Chunk, ...Chunk[]];
    const whole = others.length === 0 ? first.digest : `sha256:${digest.digest('hex')}`;
    const size = others.length === 0 ? {} : { chunkSize: first.bytes };
    const { offset } = first;
    this.#note(
      `${about},${membersOf({ offset, ...size, digest: whole, chunkDigest: first.digest })}`,
    );
    for (const [at, one] of others.entries()) {
      const chunk = {
        name,
        type: 'chunk',
        offset: one.offset,
        chunkOffset: (at + 1) * chunkBytes,
        chunkSize: one.bytes,
        chunkDigest: one.digest,
      };
      this.#note(membersOf(chunk));
    }
  }

  #note(members: string): void {
    this.#toc.add(`${this.#hasEntries ? ',\n' : '\n'}{${members}}`);
    this.#hasEntries = true;
  }

  /** Yields the tar entry of the table and the end of the tar file. */
  *#tocEntry(): Generator<Uint8Array> {
    const { length: size } = this.#toc;
    const header = ustarHeader({ path: tocName, kind: 'file', mode: 0o444, mtime: 0, size });
    yield this.#counted(header);
    for (const piece of this.#toc.pieces()) yield this.#counted(piece);
    yield this.#counted(Buffer.concat([tarPadding(size), tarEnd]));
  }
}

const emptyDigest = `sha256:${createHash('sha256').digest('hex')}`;

/** Returns members of a JSON object, without those that Go leaves out: 0 and the empty text. All of it is ASCII. */
export function membersOf(members: Readonly<Record<string, string | number>>): string {
  return Object.entries(members)
    .filter(([, value]) => value !== 0 && value !== '')
    .map(([name, value]) => `"${name}":${asciiJson(value)}`)
    .join(',');
}

export function asciiJson(value: string | number): string {
  return JSON.stringify(value).replace(
    /[\u007f-\uffff]/g,
    unit => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

const msPerSecond = 1000;

export function timeOf({ mtime }: Pick<TarEntry, 'mtime'>): string {
  return mtime === 0 ? '' : new Date(mtime * msPerSecond).toISOString().replace('.000Z', 'Z');
}

/** Returns an empty gzip member that says where the table begins. It has 51 bytes. */
function footer(tocOffset: number): Buffer {
  const field = Buffer.from(`${tocOffset.toString(16).padStart(16, '0')}STARGZ`, 'latin1');
  const extra = Buffer.concat([Buffer.from([0x53, 0x47, field.length, 0]), field]);
  return Buffer.concat([
    Buffer.from([0x1f, 0x8b, 8, 4, 0, 0, 0, 0, 0, 0xff, extra.length, 0]),
    extra,
    Buffer.from([1, 0, 0, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0]),
  ]);
}
