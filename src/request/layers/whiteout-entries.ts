import {
  paddedSize,
  type StoredEntry,
  showName,
  type TarEntry,
  TarError,
  TarReader,
} from '../../archives/index.ts';
import { gnuHeader, tarEnd } from '../../archives/tar-writer.ts';

const prefix = '.wh.';
const opaque = '.wh..wh..opq';
/** As deep as the list of files of an image shows. */
const mostDepth = 128;
const mostHidden = 100_000;
const mostHiddenBytes = 8 * 1024 * 1024;
const longestPath = 4096;
/** Headers of one entry, with room. */
const mostHeld = 4 * 1024 * 1024;

/** What an entry of a layer hides in the layers below it. */
type Whiteout =
  | { readonly kind: 'path'; readonly path: string }
  /** All that is in a directory. */
  | { readonly kind: 'content'; readonly path: string };

/**
 * Returns true for an entry in the form of OCI layers that hides files of lower layers, or is a note of AUFS. Throws a {@link TarError} for
 * the other forms: unpacked, they would hide files of every image below. Source: OCI image specification layer.md,
 * "Whiteouts"; Linux, Documentation/filesystems/overlayfs.rst.
 */
export function isWhiteout({ path, kind, device }: TarEntry, stored: StoredEntry): boolean {
  const isOfOverlay = kind === 'character-device' && device?.major === 0 && device.minor === 0;
  if (isOfOverlay || stored.hasOverlayAttributes) {
    throw new TarError(`hides files in the form of overlayfs, ${showName(path)}`);
  }
  if (!path.includes(prefix)) return false;
  const parts = partsOf(path);
  const name = parts.pop() ?? '';
  if (parts.some(part => part.startsWith(prefix)) || /^\.wh\.\.{1,2}$/.test(name)) {
    throw new TarError(`has a whiteout that names no file, ${showName(path)}`);
  }
  return name.startsWith(prefix);
}

/** Returns what a whiteout hides; undefined for a note of AUFS. */
function whiteoutOf(path: string): Whiteout | undefined {
  const parts = partsOf(path);
  const name = parts.pop() ?? '';
  // A whiteout without a name clears its directory, as in umoci.
  if (name === opaque || name === prefix) return { kind: 'content', path: parts.join('/') };
  if (name.startsWith('.wh..wh.')) return undefined;
  return { kind: 'path', path: [...parts, name.slice(prefix.length)].join('/') };
}

/** What the layers above one hide in it. */
export class HiddenFiles {
  readonly #paths = new Set<string>();
  readonly #contents = new Set<string>();
  #bytes = 0;

  add({ kind, path }: Whiteout): void {
    this.#bytes += path.length;
    if (this.#paths.size + this.#contents.size >= mostHidden || this.#bytes > mostHiddenBytes) {
      throw new TarError('and the other layers of its image delete too many files');
    }
    (kind === 'path' ? this.#paths : this.#contents).add(path);
  }

  has(parts: readonly string[]): boolean {
    let path = '';
    for (const part of parts) {
      if (this.#contents.has(path)) return true;
      path = path === '' ? part : `${path}/${part}`;
      if (this.#paths.has(path)) return true;
    }
    return false;
  }
}

/** What has to be known of a layer before it is written without what the layers above it hide. */
export interface LayerFindings {
  /** False if the layer stays as it is. */
  readonly isChanged: boolean;
  readonly whiteouts: readonly Whiteout[];
  /** Hidden files of which a hard link stays: the first such link has their content from then on. */
  readonly moved: ReadonlyMap<string, string>;
}

/** Reads a layer, part by part. Its methods throw {@link TarError}. */
export function findHidden(hidden: HiddenFiles) {
  const whiteouts: Whiteout[] = [];
  const moved = new Map<string, string>();
  let isChanged = false;
  let bytes = 0;
  const hold = (...paths: readonly string[]) => {
    for (const path of paths) bytes += path.length;
    const tooMany = whiteouts.length + moved.size >= mostHidden;
    if (tooMany || bytes > mostHiddenBytes) throw new TarError('deletes too many files');
  };
  const reader = new TarReader({
    entry(entry, stored) {
      if (isWhiteout(entry, stored)) {
        isChanged = true;
        const whiteout = whiteoutOf(entry.path);
        hold(entry.path);
        if (whiteout) whiteouts.push(whiteout);
        return false;
      }
      if (hidden.has(partsOf(entry.path))) {
        isChanged = true;
        return false;
      }
      if (entry.kind !== 'link') return false;
      const target = partsOf(entry.link);
      if (!hidden.has(target) || moved.has(target.join('/'))) return false;
      hold(entry.path, entry.link);
      moved.set(target.join('/'), entry.path);
      return false;
    },
    content() {},
  });
  return {
    write: (bytes: Buffer) => reader.write(bytes),
    end(): LayerFindings {
      reader.end();
      return { isChanged, whiteouts, moved };
    },
  };
}

/** Bytes of the archive that belong to one entry: its headers up to `content`, then its content up to `end`. */
interface Decision {
  readonly content: number;
  readonly end: number;
  /** Undefined for an entry that is left out. The headers stay for `same`. */
  readonly header: Buffer | 'same' | undefined;
}

/** Writes a layer without its whiteouts and without what is hidden. All other bytes of entries stay. Its methods throw {@link TarError}. */
export function withoutHidden(hidden: HiddenFiles, { moved }: LayerFindings) {
  let decisions: Decision[] = [];
  const reader = new TarReader(
    {
      entry(entry, stored) {
        const content = stored.contentStart;
        if (entry.isSparse) {
          throw new TarError(
            `has a sparse file, ${showName(entry.path)}, above or below deleted files`,
          );
        }
        const size = entry.kind === 'file' ? entry.size : 0;
        decisions.push({
          content,
          end: content + paddedSize(size),
          header: headerOf(entry, stored, hidden, moved),
        });
        return false;
      },
      content() {},
    },
    { withRights: true },
  );
  /** Bytes of which no entry is known yet, and their position. */
  let rest: Buffer = Buffer.alloc(0);
  let position = 0;
  /** The entry whose content passes. */
  let passing: { readonly end: number; readonly isKept: boolean } = { end: 0, isKept: false };
  return {
    /** Returns the bytes to write so far. */
    write(chunk: Buffer): Buffer {
      reader.write(chunk);
      const bytes = rest.length > 0 ? Buffer.concat([rest, chunk]) : chunk;
      const limit = position + bytes.length;
      const parts: Buffer[] = [];
      const slice = (from: number, to: number) => bytes.subarray(from - position, to - position);
      let at = position;
      const pass = () => {
        const to = Math.min(passing.end, limit);
        if (to <= at) return;
        if (passing.isKept) parts.push(slice(at, to));
        at = to;
      };
      pass();
      for (const { content, end, header } of decisions) {
        if (header === 'same') parts.push(slice(at, content));
        else if (header) parts.push(header);
        at = content;
        passing = { end, isKept: header !== undefined };
        pass();
      }
      decisions = [];
      rest = Buffer.from(slice(at, limit));
      position = at;
      if (rest.length > mostHeld) throw new TarError('has too many bytes after its end');
      return Buffer.concat(parts);
    },
    end(): Buffer {
      reader.end();
      return tarEnd;
    },
  };
}

function headerOf(
  entry: TarEntry,
  stored: StoredEntry,
  hidden: HiddenFiles,
  moved: ReadonlyMap<string, string>,
): Buffer | 'same' | undefined {
  if (isWhiteout(entry, stored)) return undefined;
  const parts = partsOf(entry.path);
  if (hidden.has(parts)) {
    const path = moved.get(parts.join('/'));
    if (path === undefined || entry.kind === 'directory') return undefined;
    if (entry.hasCapabilities) {
      throw new TarError(
        `has a hard link to a deleted program with capabilities, ${showName(path)}`,
      );
    }
    return gnuHeader({ ...entry, path });
  }
  if (entry.kind !== 'link') return 'same';
  const path = moved.get(partsOf(entry.link).join('/'));
  if (path === undefined) return 'same';
  // The first link has become the file.
  return path === entry.path ? undefined : gnuHeader({ ...entry, link: path });
}

function partsOf(path: string): string[] {
  if (path.length > longestPath)
    throw new TarError(`has a path that is too long, ${showName(path)}`);
  const parts = path.split('/').filter(part => part !== '' && part !== '.');
  if (parts.length > mostDepth || parts.includes('..')) {
    throw new TarError(`has a path that is too deep, ${showName(path)}`);
  }
  return parts;
}
