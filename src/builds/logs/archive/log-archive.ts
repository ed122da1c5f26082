/** Where logs of ended builds are kept for every server of a site. */
export interface LogArchive {
  put(name: string, bytes: Buffer): Promise<void>;
  /** Returns undefined for a name that is not there. */
  read(name: string): Promise<Buffer | undefined>;
  remove(name: string): Promise<void>;
  /** Yields all names. */
  names(): AsyncIterable<string>;
}
