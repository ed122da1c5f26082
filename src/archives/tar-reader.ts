import { SparseContent, sparseFile } from './sparse-file.ts';
import {
  type Attributes,
  attributePrefix,
  isZeroBlock,
  paddedSize,
  readHeader,
  readNames,
  readOwner,
  readPaxRecords,
  showName,
  type TarEntry,
  TarError,
  type TarHeader,
  type TarKind,
  type TarNames,
  type TarOwner,
  tarBlockSize,
  tarKinds,
} from './tar-entry.ts';
import {
  maxAttributeBytes,
  maxAttributeName,
  maxBlockBytes,
  maxHeaderBytes,
} from './tar-limits.ts';

/** Receives the entries of a tar file. */
export interface TarVisitor {
  /** Takes the next entry. Returns true to request its content. */
  entry(entry: TarEntry, stored: StoredEntry): boolean;
  /** Takes part of the requested content, including its padding: a view of the bytes given to the reader. */
  content(bytes: Buffer): void;
}

/** How the archive stores an entry. Valid until the visitor returns. */
export interface StoredEntry {
  /** Position of its content in the archive. */
  readonly contentStart: number;
  /** Its header: a view of the bytes given to the reader, if these are whole blocks. */
  readonly header: Buffer;
  /** True if the time of the entry is in a PAX header, and not in {@link header}. */
  readonly hasPaxTime: boolean;
  /** True if it has attributes that overlayfs reads: they can delete what lower layers have. */
  readonly hasOverlayAttributes: boolean;
  /** With the option `withBlocks`: all that the archive has of it before its content. */
  readonly whole?: WholeHeader | undefined;
}

/** All headers of an entry. */
export interface WholeHeader {
  /** The blocks since the end of the last entry: extended headers with their content, and the header. */
  readonly blocks: Buffer;
  /** The PAX records. Values have one character per byte. Attributes may be empty. */
  readonly records: ReadonlyMap<string, string>;
  /** Names of its user and group; empty for none. One character per byte. */
  readonly names: TarNames;
}

export interface TarReaderOptions {
  /** Entries also have their owner and say whether they have capabilities. Default: false. */
  readonly withRights?: boolean;
  /** What the archive stores of an entry has its headers as they are. Default: false. */
  readonly withBlocks?: boolean;
}

const kinds: Readonly<Record<string, TarKind>> = tarKinds;
const extensionTypes = 'xXgLK';
const zeroByte = '\0';

/**
 * Reads a tar file in parts of any size. Keeps no more than a header in memory. Follows Go's archive/tar,
 * which container programs use: reads long names of GNU and PAX, reads content for files only, ignores
 * global headers.
 */
export class TarReader {
  readonly #visitor: TarVisitor;
  readonly #withRights: boolean;
  /** Blocks of headers since the last entry, if they are requested. */
  readonly #blocks: Buffer[] | undefined;
  #blockBytes = 0;
  readonly #stored: { -readonly [Name in keyof StoredEntry]: StoredEntry[Name] };
  readonly #block = Buffer.alloc(tarBlockSize);
  #blockFill = 0;
  /** Bytes read so far. */
  #position = 0;
  /** Remaining bytes of the current content, including its padding. */
  #body = 0;
  #isWanted = false;
  #sparse: SparseContent | undefined;
  #extension: { type: string; size: number; parts: Buffer[] } | undefined;
  #pax: Map<string, string> | undefined;
  #longName: string | undefined;
  #longLink: string | undefined;
  #zeroBlocks = 0;

  constructor(
    visitor: TarVisitor,
    { withRights = false, withBlocks = false }: TarReaderOptions = {},
  ) {
    this.#visitor = visitor;
    this.#withRights = withRights;
    this.#blocks = withBlocks ? [] : undefined;
    this.#stored = {
      contentStart: 0,
      header: this.#block,
      hasPaxTime: false,
      hasOverlayAttributes: false,
    };
  }

  /** Reads the next part. Throws {@link TarError} for invalid data, and the errors of the visitor. */
  write(chunk: Buffer): void {
    let at = 0;
    while (at < chunk.length && this.#zeroBlocks < 2) {
      const size = this.#body > 0 ? this.#readBody(chunk, at) : this.#readBlock(chunk, at);
      at += size;
    }
  }

  /** Ends the input. Throws {@link TarError} if an entry is incomplete. */
  end(): void {
    const isCut = this.#body > 0 || this.#blockFill > 0 || this.#extension !== undefined;
    if (isCut) throw new TarError('ends in the middle of a tar entry');
  }

  #readBody(chunk: Buffer, at: number): number {
    const size = Math.min(this.#body, chunk.length - at);
    const bytes = chunk.subarray(at, at + size);
    this.#body -= size;
    this.#position += size;
    if (this.#extension) {
      this.#extension.parts.push(this.#keep(Buffer.from(bytes)));
      if (this.#body === 0) this.#readExtension();
    } else if (this.#isWanted) {
      if (this.#sparse) this.#sparse.write(bytes);
      else this.#visitor.content(bytes);
    }
    return size;
  }

  #readBlock(chunk: Buffer, at: number): number {
    const missing = tarBlockSize - this.#blockFill;
    if (missing === tarBlockSize && chunk.length - at >= tarBlockSize) {
      this.#position += tarBlockSize;
      this.#takeHeader(chunk.subarray(at, at + tarBlockSize));
      return tarBlockSize;
    }
    const size = chunk.copy(this.#block, this.#blockFill, at, at + missing);
    this.#blockFill += size;
    this.#position += size;
    if (this.#blockFill === tarBlockSize) {
      this.#blockFill = 0;
      this.#takeHeader(this.#block);
    }
    return size;
  }

  #takeHeader(block: Buffer): void {
    if (isZeroBlock(block)) {
      this.#zeroBlocks += 1;
      return;
    }
    if (this.#zeroBlocks > 0) throw new TarError('goes on after an empty tar block');
    const header = readHeader(block);
    if (header.size < 0 || !Number.isSafeInteger(header.size)) {
      throw new TarError(`has an entry of impossible size, ${showName(header.name)}`);
    }
    if (this.#blocks) this.#keep(Buffer.from(block));
    if (extensionTypes.includes(header.type)) this.#startExtension(header);
    else this.#takeEntry(header, block);
  }

  /** Keeps bytes of a header for its entry. */
  #keep(bytes: Buffer): Buffer {
    if (!this.#blocks) return bytes;
    this.#blockBytes += bytes.length;
    // An entry may have any number of them.
    if (this.#blockBytes > maxBlockBytes) {
      throw new TarError('has more than 4 MiB of tar headers for one entry');
    }
    this.#blocks.push(bytes);
    return bytes;
  }

  #takeWhole(block: Buffer, pax: ReadonlyMap<string, string> | undefined): WholeHeader | undefined {
    if (!this.#blocks) return undefined;
    this.#blockBytes = 0;
    const own = readNames(block);
    const names = { user: pax?.get('uname') ?? own.user, group: pax?.get('gname') ?? own.group };
    const blocks = Buffer.concat(this.#blocks.splice(0));
    return { blocks, records: pax ?? noRecords, names };
  }

  #startExtension({ type, size }: TarHeader): void {
    if (size > maxHeaderBytes) throw new TarError('has a tar header longer than 1 MiB');
    this.#extension = { type, size, parts: [] };
    this.#body = paddedSize(size);
    if (size === 0) this.#readExtension();
  }

  #readExtension(): void {
    const { type, size, parts } = this.#extension ?? { type: '', size: 0, parts: [] };
    this.#extension = undefined;
    const body = Buffer.concat(parts).subarray(0, size);
    if (type === 'g') {
      // Go's reader returns it as an entry, so what is before it counts for no other.
      this.#pax = undefined;
      this.#longName = undefined;
      this.#longLink = undefined;
      return;
    }
    if (type === 'x' || type === 'X') {
      this.#pax = readPaxRecords(body, this.#blocks !== undefined);
      return;
    }
    const zero = body.indexOf(0);
    const text = body.toString('latin1', 0, zero < 0 ? body.length : zero);
    if (type === 'L') this.#longName = text;
    else this.#longLink = text;
  }

  #takeEntry(header: TarHeader, block: Buffer): void {
    const pax = this.#pax;
    const sparse = sparseFile(pax);
    const path = this.#longName ?? sparse?.name ?? pax?.get('path') ?? header.name;
    const link = this.#longLink ?? pax?.get('linkpath') ?? header.link;
    this.#pax = undefined;
    this.#longName = undefined;
    this.#longLink = undefined;
    if (header.type === 'S') throw sparseError(path);
    const kind = header.type === '\0' && path.endsWith('/') ? 'directory' : kinds[header.type];
    if (kind === undefined) {
      throw new TarError(`has an entry of unknown tar type, ${showName(path)}`);
    }
    if (path.includes(zeroByte) || link.includes(zeroByte)) {
      throw new TarError('has a damaged PAX header');
    }
    const stored = kind === 'file' ? sizeOf(header, pax) : 0;
    const holes = kind === 'file' ? sparse : undefined;
    this.#body = paddedSize(stored);
    const { mode, major, minor } = header;
    const attributes = attributesOf(pax);
    const entry: TarEntry = {
      path,
      kind,
      mode,
      mtime: mtimeOf(header, pax),
      size: holes?.size ?? stored,
      link,
      ...(kind.endsWith('-device') ? { device: { major, minor } } : undefined),
      ...(attributes.length > 0 ? { attributes } : undefined),
      ...(holes ? { isSparse: true } : undefined),
      ...(this.#withRights ? rightsOf(readOwner(block), pax) : undefined),
    };
    this.#stored.contentStart = this.#position;
    this.#stored.header = block;
    this.#stored.hasPaxTime = pax?.has('mtime') === true;
    this.#stored.hasOverlayAttributes = pax ? [...pax.keys()].some(isOfOverlay) : false;
    this.#stored.whole = this.#takeWhole(block, pax);
    this.#isWanted = this.#visitor.entry(entry, this.#stored);
    this.#sparse = undefined;
    if (!holes || !this.#isWanted) return;
    this.#sparse = new SparseContent(holes, stored, bytes => this.#visitor.content(bytes));
  }
}

/** Returns the error for an unsupported sparse file. */
export function sparseError(path: string): TarError {
  return new TarError(
    `has a sparse file, ${showName(path)}, which is not supported: pack it without 'tar --sparse'`,
  );
}

const noAttributes: Attributes = [];
const noRecords: ReadonlyMap<string, string> = new Map();

/** Source: Linux, Documentation/filesystems/overlayfs.rst; `user` with the mount option userxattr. */
function isOfOverlay(key: string): boolean {
  return /^(?:SCHILY|LIBARCHIVE)\.xattr\.(?:trusted|user)\.overlay\./.test(key);
}

/** Returns the attributes that an ordinary user may set. The others require rights that no container has. */
function attributesOf(pax: ReadonlyMap<string, string> | undefined): Attributes {
  if (!pax) return noAttributes;
  return [...pax]
    .filter(([key]) => key.startsWith(`${attributePrefix}user.`))
    .map(([key, value]) => [key.slice(attributePrefix.length), value] as const)
    .filter(
      ([name, value]) => name.length <= maxAttributeName && value.length <= maxAttributeBytes,
    );
}

/** Source: pax(1), uid and gid; Linux, capabilities(7), File capabilities. */
function rightsOf(
  owner: TarOwner,
  pax: ReadonlyMap<string, string> | undefined,
): Pick<TarEntry, 'owner' | 'hasCapabilities'> {
  const id = (name: 'uid' | 'gid') => {
    const text = pax?.get(name);
    const number = text === undefined ? owner[name] : /^\d{1,15}$/.test(text) ? Number(text) : -1;
    // Nobody can own a file with another number.
    if (!(number >= 0 && number <= 0xffffffff)) throw new TarError('has an entry of a wrong owner');
    return number;
  };
  return {
    owner: { uid: id('uid'), gid: id('gid') },
    ...(pax?.has(`${attributePrefix}security.capability`) ? { hasCapabilities: true } : undefined),
  };
}

function sizeOf(header: TarHeader, pax: Map<string, string> | undefined): number {
  const text = pax?.get('size');
  if (text === undefined) return header.size;
  const size = /^\d+$/.test(text) ? Number(text) : Number.NaN;
  if (!Number.isSafeInteger(size)) throw new TarError('has a damaged PAX header');
  return size;
}

function mtimeOf(header: TarHeader, pax: Map<string, string> | undefined): number {
  const text = pax?.get('mtime');
  if (text === undefined) return header.mtime;
  const seconds = Number(text);
  if (!Number.isFinite(seconds)) throw new TarError('has a damaged PAX header');
  return Math.floor(seconds);
}
