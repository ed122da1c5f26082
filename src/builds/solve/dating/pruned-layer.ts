import { createHash } from 'node:crypto';
import {
  bytesOf,
  showName,
  type TarEntry,
  TarError,
  TarReader,
  textOfBytes,
} from '../../../archives/index.ts';
import { tarEnd, ustarHeader } from '../../../archives/tar-writer.ts';
import type { Digest } from '../../../oci/digest.ts';

/** What is kept of a layer. */
export interface KeptPart {
  /** Without a slash at its beginning and end. */
  readonly below: string;
  readonly maxEntries: number;
  /** Bytes of all files together. */
  readonly maxBytes: number;
}

/** The tar file of a layer of which nothing is kept. */
export const emptyTar = `sha256:${createHash('sha256').update(tarEnd).digest('hex')}` as Digest;

/**
 * Writes a layer again with what is below one path alone: files of user and group 0 with one date, links, directories, and names that
 * delete files of lower layers. Throws `TarError` for anything else there, and for more than is allowed.
 */
export class PrunedLayer {
  readonly #reader: TarReader;
  readonly #part: KeptPart;
  #written: Buffer[] = [];
  #entries = 0;
  #bytes = 0;

  constructor(part: KeptPart) {
    this.#part = part;
    this.#reader = new TarReader({
      entry: entry => this.#take(entry),
      content: bytes => void this.#written.push(bytes),
    });
  }

  /** Takes the next bytes; returns those of the new layer. */
  pass(chunk: Buffer): Buffer {
    this.#reader.write(chunk);
    const bytes = Buffer.concat(this.#written);
    this.#written = [];
    return bytes;
  }

  end(): Buffer {
    this.#reader.end();
    return tarEnd;
  }

  /** Returns true for an entry whose content is kept. */
  #take({ path: written, kind, mode, size, link, isSparse }: TarEntry): boolean {
    const { below, maxEntries, maxBytes } = this.#part;
    const path = plainPath(written);
    // A link would lead to files elsewhere, which are not kept.
    if (kind !== 'directory' && `${below}/`.startsWith(`${path}/`)) {
      throw new TarError(`has ${showName(written)}, which must stay a directory`);
    }
    if (path !== below && !path.startsWith(`${below}/`)) return false;
    this.#entries += 1;
    this.#bytes += size;
    if (this.#entries > maxEntries) throw new TarError(`has more than ${maxEntries} files`);
    if (this.#bytes > maxBytes) throw new TarError(`has more than ${maxBytes} bytes`);
    const isKnown = ['file', 'link', 'symlink', 'directory'].includes(kind) && !isSparse;
    const target = kind === 'link' ? plainPath(link) : link;
    const isInside = kind !== 'link' || target.startsWith(`${below}/`);
    const isText = [path, target].every(name => bytesOf(textOfBytes(name)) === name);
    const isPlain = [path, ...(kind === 'link' ? [target] : [])].every(
      name => !name.split('/').some(part => part === '' || part === '.' || part === '..'),
    );
    if (!isKnown || !isInside || !isText || !isPlain) {
      throw new TarError(`has ${showName(written)}, which an environment cannot have`);
    }
    const names = { path: textOfBytes(path), link: textOfBytes(target) };
    this.#written.push(ustarHeader({ ...names, kind, mode, size }));
    return size > 0;
  }
}

/** Returns a path of a layer without a leading `/` or `./`, and without a slash at its end. */
function plainPath(path: string): string {
  return path.replace(/^\.?\//, '').replace(/\/$/, '');
}
