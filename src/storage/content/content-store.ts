import type { Digest, DigestAlgorithm } from '../../oci/digest.ts';
import type { ByteSource } from './byte-source.ts';
import type { Proof } from './checks.ts';
import type { Ingest } from './ingest.ts';
import type { LocalFile, ScratchFile } from './scratch-file.ts';

/** Content by digest. What is in it is whole: it was verified before it got its name. */
export interface ContentStore {
  /** Size in bytes, undefined when it is not here. */
  size(digest: Digest): Promise<number | undefined>;
  /** All bytes of a small document, undefined when it is not here. */
  read(digest: Digest): Promise<Buffer | undefined>;
  /**
   * The bytes from `start` to `end`, both included; the caller reads to the end or destroys the source. Damaged
   * content is never read to its end: `read` rejects, and the content is set aside.
   */
  open(digest: Digest, start: number, end: number): ByteSource;
  /** Reads all of it, unless that was done lately; sets aside what is damaged. */
  prove(digest: Digest): Promise<Proof>;
  /** The same at the caller's pace: `pace` is called with each number of bytes read. */
  scrub(digest: Digest, pace: (bytes: number) => Promise<void>): Promise<Proof>;
  /** Reads all of it, whatever is known of it, and changes nothing. */
  examine(digest: Digest): Promise<Proof>;
  /** True when it was read and found right lately. */
  isFresh(digest: Digest): boolean;
  /**
   * Returns a file with the content, checked, for a program that reads files; undefined when the content is not here.
   * A store far away fetches it; reading by {@link open} costs less.
   */
  lease(digest: Digest): Promise<LocalFile | undefined>;
  /** Keeps a small document whose digest the caller has verified. Resolves when it would survive a power failure. */
  write(digest: Digest, bytes: Buffer): Promise<void>;
  /** Resolves when everything that is visible here would survive a power failure. */
  settle(): Promise<void>;
  /** Ends the ownership of the store; nothing is written to it after that. */
  close(): Promise<void>;
  /**
   * Begins to take in content of which the digest is known or will be told at the end.
   *
   * @param expected bytes, where they are known: without the space for them nothing begins
   */
  ingest(algorithm?: DigestAlgorithm, expected?: number): Promise<Ingest>;
  /**
   * Returns an empty file for bytes that are not content, such as what a program is about to read.
   *
   * @param expected bytes, where they are known: without the space for them nothing begins
   */
  scratch(expected?: number): Promise<ScratchFile>;
  /**
   * Counts content as used now, so that no sweep takes it before what needs it is written down; false when it is not
   * here.
   */
  claim(digest: Digest): Promise<boolean>;
  /**
   * Removes content that `mark` has marked as `going` in its row; true when it was here. Readers that have it open
   * continue.
   *
   * @param mark marks it, and returns false when it is to stay
   */
  remove(digest: Digest, mark: () => Promise<boolean>): Promise<boolean>;
  /** Removes content, whatever needs it; true when it was here. */
  discard(digest: Digest): Promise<boolean>;
  /**
   * Everything here; for sweeps, not for requests.
   * @param begin where to begin, as a part (0 to 1) of the whole
   */
  list(begin?: number): AsyncIterable<KeptContent>;
  /** Removes what was on its way in and not written to since the moment; returns how many files. */
  removeLeftovers(since: number): Promise<number>;
  /** Removes damaged content that was set aside before the moment; returns how many files. */
  removeDamaged(before: number): Promise<number>;
}

export interface KeptContent {
  readonly digest: Digest;
  /** Bytes. */
  readonly size: number;
}
