import { hash } from 'node:crypto';
import { constants, deflateRawSync, inflateRawSync } from 'node:zlib';
import type { InstalledPackage } from '../../installing/installed-package.ts';

/**
 * What is kept about a package whose layer was made: of its own documents, the members that layers, lock files and bills of
 * materials require. Its paths are kept apart: they are read seldom.
 */
export interface PackageFacts extends Omit<InstalledPackage, 'sums'> {
  /** Undefined for a layer that an older version has made. */
  readonly sums?: InstalledPackage['sums'] | undefined;
}

const indexMembers = [
  ...['name', 'version', 'build', 'subdir', 'noarch', 'depends', 'constrains', 'license'],
  ...['license_family', 'timestamp', 'track_features', 'python_site_packages_path'],
];
const aboutMembers = ['license', 'license_family', 'summary', 'home'];

/** Returns what is kept about a package: others of its members are in its record, and have up to 2 MiB. */
export function factsFrom({
  index,
  about,
  sums,
  variables,
  linkScripts,
}: InstalledPackage): PackageFacts {
  return {
    index: membersOf(index, indexMembers),
    about: membersOf(about, aboutMembers),
    sums,
    variables,
    linkScripts,
  };
}

function membersOf(document: PackageFacts['index'], names: readonly string[]) {
  return Object.fromEntries(
    names.flatMap(name => (name in document ? [[name, document[name]]] : [])),
  );
}

/** Returns the paths that a {@link PathPacker} has packed, in their order. */
export function unpackPaths(packed: Uint8Array): string[] {
  const text = inflateRawSync(packed).toString();
  return text === '' ? [] : text.split('\0');
}

/** Bytes of a hash in {@link PathPacker.hashes}. */
export const pathHashBytes = 6;

const pieceBytes = 1024 * 1024;
/** The paths of a small package are compressed in 16 KiB: the usual 256 KiB take longer to come and go than the work. */
const smallBytes = 16 * 1024;
const littleMemory = { windowBits: 12, memLevel: 4 };

/** Packs the paths of a package for a row, as they come. Takes some milliseconds for a large package: for a thread. */
export class PathPacker {
  readonly #files = new HashList();
  readonly #directories = new HashList();
  readonly #packed: Buffer[] = [];
  #texts: string[] = [];
  #bytes = 0;
  #count = 0;
  #last = '';

  /** Takes the next path; all that are in one directory come together. */
  add(path: string): void {
    this.#files.add(path, 0);
    for (let at = path.lastIndexOf('/'); at > 0; at = path.lastIndexOf('/', at - 1)) {
      const directory = path.slice(0, at);
      if (this.#last.startsWith(`${directory}/`)) break;
      this.#directories.add(directory, 1);
    }
    this.#last = path;
    this.#texts.push(this.#count === 0 ? path : `\0${path}`);
    this.#count += 1;
    this.#bytes += path.length;
    if (this.#bytes >= pieceBytes) this.#pack(constants.Z_FULL_FLUSH);
  }

  /** Returns what {@link unpackPaths} reads. */
  paths(): Buffer {
    this.#pack(constants.Z_FINISH);
    return Buffer.concat(this.#packed);
  }

  /**
   * Returns six bytes for each path, in their order, and then for each directory above them. Paths that differ rarely
   * have the same ones. The last bit is 1 for a directory.
   */
  hashes(): Buffer {
    return Buffer.concat([this.#files.bytes, this.#directories.bytes]);
  }

  /** A piece ends at a whole byte, and refers to no other: together they are one stream. */
  #pack(finishFlush: number): void {
    const memory = this.#bytes < smallBytes ? littleMemory : {};
    this.#packed.push(deflateRawSync(this.#texts.join(''), { finishFlush, ...memory }));
    this.#texts = [];
    this.#bytes = 0;
  }
}

class HashList {
  #bytes = Buffer.alloc(0);
  #size = 0;

  get bytes(): Buffer {
    return this.#bytes.subarray(0, this.#size);
  }

  add(path: string, lastBit: 0 | 1): void {
    const end = this.#size + pathHashBytes;
    if (end > this.#bytes.length) {
      const larger = Buffer.alloc(Math.max(4096, 2 * this.#bytes.length));
      this.#bytes.copy(larger, 0, 0, this.#size);
      this.#bytes = larger;
    }
    hash('sha256', path, 'buffer').copy(this.#bytes, this.#size, 0, pathHashBytes);
    this.#bytes[end - 1] = ((this.#bytes[end - 1] ?? 0) & 0xfe) | lastBit;
    this.#size = end;
  }
}
