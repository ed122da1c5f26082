import { unlink } from 'node:fs/promises';
import type { Digest, DigestAlgorithm } from '../../oci/digest.ts';
import type { SpacePromise } from '../directory/index.ts';
import type { ByteSource } from './byte-source.ts';
import type { Proof } from './checks.ts';
import { type Draft, type Ingest, type KeptDraft, writeFully } from './ingest.ts';

/** Content by digest. All of it is complete: it was verified before it became visible. */
export interface ContentStore {
  /** Returns the size in bytes; undefined for absent content. */
  size(digest: Digest): Promise<number | undefined>;
  /** Returns all bytes of a small document; undefined when it is absent or damaged. */
  read(digest: Digest): Promise<Buffer | undefined>;
  /**
   * Returns the bytes from `start` to `end`, both included. The caller reads to the end or destroys the source. `read`
   * rejects before the end of damaged content, which is then set aside.
   */
  open(digest: Digest, start: number, end: number): ByteSource;
  /** True when clients may read large content at the addresses of {@link link}. */
  readonly hasLinks: boolean;
  /**
   * Returns an address at which anyone can read the content for some minutes; undefined when this server serves it
   * itself. Content has an address only after a recent check.
   *
   * @param size bytes
   */
  link(digest: Digest, size: number): Promise<URL | undefined>;
  /** Reads all bytes, unless a recent check has succeeded; sets damaged content aside. */
  prove(digest: Digest): Promise<Proof>;
  /** Does the same at the caller's pace: `pace` is called with each number of bytes read. */
  scrub(digest: Digest, pace: (bytes: number) => Promise<void>): Promise<Proof>;
  /** Reads all bytes, also after a recent check, and changes nothing. */
  examine(digest: Digest): Promise<Proof>;
  /** Returns true after a recent successful check. */
  isFresh(digest: Digest): boolean;
  /**
   * Returns a file with the content, checked, for a program that reads files; undefined when the content is not here.
   * A store far away fetches it; reading by {@link open} costs less.
   */
  lease(digest: Digest): Promise<LocalFile | undefined>;
  /** Keeps a small document whose digest the caller has verified. Resolves when it would survive a power failure. */
  write(digest: Digest, bytes: Buffer): Promise<void>;
  /** Resolves when all visible content would survive a power failure. */
  settle(): Promise<void>;
  /** Closes the store; the caller writes nothing to it afterwards. */
  close(): Promise<void>;
  /**
   * Begins to take in content.
   *
   * @param expected bytes, if known; rejects when there is no space for them
   * @param isReserved false to leave the space to others until the bytes arrive. Default: true.
   */
  ingest(algorithm?: DigestAlgorithm, expected?: number, isReserved?: boolean): Promise<Ingest>;
  /** Continues what {@link Ingest.keep} has kept, in this process or a former one; undefined when it is no longer here. */
  resume(kept: KeptDraft): Promise<Ingest | undefined>;
  /** Removes what {@link Ingest.keep} has kept. */
  drop(kept: KeptDraft): Promise<void>;
  /**
   * Returns an empty file for bytes that are not content, such as what a program is about to read.
   *
   * @param expected bytes, if known; rejects when there is no space for them
   */
  scratch(expected?: number): Promise<ScratchFile>;
  /** Counts content as used now, so that no sweep removes it before a row refers to it; false when it is not here. */
  claim(digest: Digest): Promise<boolean>;
  /**
   * Removes content that `mark` has marked as `going` in its row; true when it was here. Readers that have it open
   * continue.
   *
   * @param mark marks it, and returns false when the content must stay
   */
  remove(digest: Digest, mark: () => Promise<boolean>): Promise<boolean>;
  /** Removes content, even when something needs it; true when it was here. */
  discard(digest: Digest): Promise<boolean>;
  /**
   * Reads all bytes, also after a recent check, and removes damaged content, whatever needs it. Does not remove content
   * that was brought again while the damaged bytes were read.
   */
  discardDamaged(digest: Digest): Promise<Proof>;
  /**
   * Lists all content; for regular work, not for requests.
   * @param begin position of the start, as a fraction (0 to 1) of the whole
   */
  list(begin?: number): AsyncIterable<KeptContent>;
  /**
   * Removes unfinished content and scratch files on this machine that were not written to since the moment, and ends
   * transfers to another store; returns their number.
   *
   * @param kept what can still be resumed, and stays. Default: nothing
   */
  removeLeftovers(since: number, kept?: readonly KeptDraft[]): Promise<number>;
  /**
   * Ends transfers to another store that failed and that nobody ended, except those that began since the moment or are
   * under way here; returns their number.
   * @param signal ends the work between two transfers, and rejects with its reason
   */
  endTransfers(before: number, signal?: AbortSignal): Promise<number>;
  /**
   * Removes what {@link Ingest.keep} has put into another store before the moment, except for the drafts that can still be
   * resumed; returns the number of objects.
   * @param signal ends the work between two objects, and rejects with its reason
   */
  removeStrayDrafts(
    before: number,
    kept: readonly KeptDraft[],
    signal?: AbortSignal,
  ): Promise<number>;
  /**
   * Removes damaged content that was set aside before the moment; returns the number of files removed.
   * @param signal ends the work between two files, and rejects with its reason
   */
  removeDamaged(before: number, signal?: AbortSignal): Promise<number>;
}

export interface KeptContent {
  readonly digest: Digest;
  /** Bytes. */
  readonly size: number;
}

/** A file on this machine that a program can read. It stays in place until it is disposed of. */
export interface LocalFile extends AsyncDisposable {
  readonly path: string;
}

/** A file on this machine for as long as the caller works with it. Disposing of it removes it. */
export interface ScratchFile extends LocalFile {
  /** Appends; resolves when the bytes are written, so that the caller may reuse the buffer. One call at a time. */
  write(bytes: Uint8Array): Promise<void>;
}

/** Returns a new file, open for writing, as a scratch file. */
export function scratchFile({ path, file }: Draft, space: SpacePromise): ScratchFile {
  let size = 0;
  return {
    path,
    async write(bytes) {
      space.spend(bytes.length);
      size += await writeFully(file, [bytes], size);
    },
    async [Symbol.asyncDispose]() {
      space.end();
      await file.close();
      // `rm` looks at the file twice before it removes it.
      await unlink(path).catch(unlessAbsent);
    },
  };
}

function unlessAbsent(error: NodeJS.ErrnoException): void {
  if (error.code !== 'ENOENT') throw error;
}
