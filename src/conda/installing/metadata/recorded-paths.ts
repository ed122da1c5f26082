import { hash } from 'node:crypto';
import type { PlannedPath } from '../plan-paths.ts';

/** A file as it was written. */
export interface WrittenFile {
  /** Hex digits. */
  readonly sha256: string;
  /** Bytes. */
  readonly size: number;
}

/** A path in the record of an installed package. Members as in rattler, in its order. */
export interface RecordedPath {
  readonly _path: string;
  readonly original_path?: string;
  readonly path_type: 'hardlink' | 'softlink' | 'directory' | 'unix_python_entry_point';
  readonly no_link?: true;
  readonly sha256?: string;
  readonly sha256_in_prefix?: string;
  readonly size_in_bytes?: number;
  readonly file_mode?: 'text' | 'binary';
  readonly prefix_placeholder?: string;
}

/** What the record of a package says about its paths: made again each time that it is read. */
export class RecordedPaths implements Iterable<RecordedPath> {
  readonly #planned: readonly PlannedPath[];
  readonly #written = new Map<PlannedPath, WrittenFile>();

  constructor(planned: readonly PlannedPath[]) {
    this.#planned = planned;
  }

  get isEmpty(): boolean {
    return this.#planned.length === 0;
  }

  /** Notes a file that was not written as the archive contains it. */
  note(planned: PlannedPath, written: WrittenFile): void {
    this.#written.set(planned, written);
  }

  /** Yields the paths alone. */
  *paths(): Generator<string> {
    for (const { path } of this.#planned) yield path;
  }

  *[Symbol.iterator](): Generator<RecordedPath> {
    for (const planned of this.#planned) yield this.#recorded(planned);
  }

  #recorded(planned: PlannedPath): RecordedPath {
    const { path, originalPath, source } = planned;
    const start = {
      _path: path,
      ...(originalPath === undefined ? {} : { original_path: originalPath }),
    };
    const note = this.#written.get(planned);
    if (source.kind === 'directory') {
      return { ...start, path_type: 'directory', size_in_bytes: 0 };
    }
    if (source.kind === 'script') {
      const { sha256 = '', size = 0 } = note ?? {};
      return { ...start, path_type: 'unix_python_entry_point', sha256, size_in_bytes: size };
    }
    const { sha256, size, type, noLink, placeholder } = source.listed;
    if (source.kind === 'symlink') {
      return {
        ...start,
        path_type: 'softlink',
        ...recordedSums(sha256, hash('sha256', source.link, 'hex')),
        size_in_bytes: size ?? Buffer.byteLength(source.link),
      };
    }
    const written = note ?? source.content;
    const isLink = type === 'softlink';
    return {
      ...start,
      path_type: type,
      ...(noLink ? { no_link: true } : {}),
      // Rattler does not look at what a copied link led to.
      ...recordedSums(sha256, isLink ? (sha256 ?? written.sha256) : written.sha256),
      size_in_bytes: isLink ? (size ?? written.size) : written.size,
      ...(placeholder ? { file_mode: placeholder.mode, prefix_placeholder: placeholder.text } : {}),
    };
  }
}

/** @param listed by the package; @param inPrefix of the file as it is installed, of a link its target's name */
function recordedSums(listed: string | undefined, inPrefix: string) {
  return {
    ...(listed === undefined ? {} : { sha256: listed }),
    ...(listed === inPrefix ? {} : { sha256_in_prefix: inPrefix }),
  };
}
