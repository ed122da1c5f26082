import { createHash, type Hash } from 'node:crypto';
import type { TarEntry, TarVisitor } from '../../../archives/index.ts';
import { maxPathBytes } from '../../../archives/tar-limits.ts';
import { Fault } from '../../../foundation/fault.ts';
import { partsOf } from '../../sif/layers/index.ts';
import { keySeparator, type ListedEntry } from '../listed-entry.ts';
import type { ListingLimits } from '../listing-limits.ts';

const whiteout = '.wh.';
const opaque = '.wh..wh..opq';
// Two contents with the same first 16 bytes cannot be found by trying.
const hashBytes = 16;
/** Pages show the way to a file: it must not be as long as a path can be. */
const mostDepth = 128;

type Limits = Pick<ListingLimits, 'maxUnpackedBytes' | 'maxEntries' | 'maxNameBytes'>;
type Collected = { -readonly [Name in keyof ListedEntry]: ListedEntry[Name] };

/** Collects what a layer says about each path, from the entries of its tar file. */
export class EntryCollector implements TarVisitor {
  readonly #limits: Limits;
  readonly #entries = new Map<string, Collected>();
  #nameBytes = 0;
  #unpacked = 0;
  #hashing: { readonly entry: Collected; readonly hash: Hash; rest: number } | undefined;

  constructor(limits: Limits) {
    this.#limits = limits;
  }

  /** Counts unpacked bytes. Throws a {@link Fault} above the limit. */
  count(bytes: number): void {
    this.#unpacked += bytes;
    const { maxUnpackedBytes } = this.#limits;
    if (this.#unpacked > maxUnpackedBytes) {
      throw tooLarge(`unpacks to more than ${maxUnpackedBytes} bytes`);
    }
  }

  entry(tarEntry: TarEntry): boolean {
    // The holes of a sparse file are not in the archive, but are hashed.
    if (tarEntry.isSparse) this.count(tarEntry.size);
    const parts = partsOf(tarEntry.path);
    if (parts.length > mostDepth) throw tooLarge(`has directories more than ${mostDepth} deep`);
    const name = parts.at(-1) ?? '';
    if (name === opaque || name === whiteout) {
      this.#hide(parts.slice(0, -1).join(keySeparator));
      return false;
    }
    // Notes that AUFS kept for itself.
    if (name.startsWith('.wh..wh.')) return false;
    if (name.startsWith(whiteout)) {
      parts[parts.length - 1] = name.slice(whiteout.length);
      this.#remove(parts.join(keySeparator));
      return false;
    }
    const entry = this.#put(parts.join(keySeparator), tarEntry);
    if (entry.kind !== 'file' || entry.size === 0) return false;
    this.#hashing = { entry, hash: createHash('sha256'), rest: entry.size };
    return true;
  }

  content(bytes: Buffer): void {
    const hashing = this.#hashing;
    if (!hashing || hashing.rest === 0) return;
    // The rest is padding.
    const own = bytes.subarray(0, hashing.rest);
    hashing.hash.update(own);
    hashing.rest -= own.length;
    if (hashing.rest > 0) return;
    hashing.entry.hash = hashing.hash.digest().toString('latin1', 0, hashBytes);
  }

  /** Returns the entries in the order of their keys. */
  take(): readonly ListedEntry[] {
    return [...this.#entries.values()].sort((one, other) => (one.key < other.key ? -1 : 1));
  }

  #put(key: string, { kind, mode, owner, size, link, hasCapabilities }: TarEntry): Collected {
    const earlier = this.#entries.get(key);
    const target = link.slice(0, maxPathBytes);
    this.#countNames(target.length);
    return this.#set({
      key,
      kind,
      mode,
      size,
      hash: '',
      uid: owner?.uid ?? 0,
      gid: owner?.gid ?? 0,
      // A part of a string would keep the whole string in memory.
      link: Buffer.from(target, 'latin1').toString('latin1'),
      hasCapabilities: hasCapabilities === true,
      isImplicit: false,
      hides: earlier !== undefined && (earlier.hides || earlier.kind === 'whiteout'),
      twice: earlier ? earlier.twice + earlier.size : 0,
    });
  }

  #remove(key: string): void {
    const present = this.#entries.get(key);
    if (present) present.hides = true;
    else this.#set({ ...nothing, key, kind: 'whiteout' });
  }

  #hide(key: string): void {
    const present = this.#entries.get(key);
    if (present && present.kind !== 'whiteout') present.hides = true;
    else this.#set({ ...nothing, key, kind: 'directory', hides: true, isImplicit: true });
  }

  #set(entry: Collected): Collected {
    if (!this.#entries.has(entry.key)) {
      this.#countNames(entry.key.length);
      const { maxEntries } = this.#limits;
      if (this.#entries.size >= maxEntries) throw tooLarge(`has more than ${maxEntries} files`);
    }
    this.#entries.set(entry.key, entry);
    return entry;
  }

  #countNames(bytes: number): void {
    this.#nameBytes += bytes;
    const { maxNameBytes } = this.#limits;
    if (this.#nameBytes > maxNameBytes) {
      throw tooLarge(`has names of more than ${maxNameBytes} bytes together`);
    }
  }
}

const nothing = {
  mode: 0,
  uid: 0,
  gid: 0,
  size: 0,
  link: '',
  hash: '',
  twice: 0,
  hides: false,
  hasCapabilities: false,
  isImplicit: false,
};

function tooLarge(problem: string): Fault {
  return new Fault('too-large', `The layer ${problem}: Sluice does not list such layers`, {
    phase: 'layer',
  });
}
