export type TarKind =
  | 'file'
  | 'directory'
  | 'symlink'
  | 'link'
  | 'fifo'
  | 'character-device'
  | 'block-device';

/**
 * One entry of a tar file. Names are bytes and may not be valid UTF-8: each character of `path` and `link`
 * represents one byte.
 */
export interface TarEntry {
  readonly path: string;
  readonly kind: TarKind;
  /** Permissions with setuid, setgid and sticky: 0 to 0o7777. */
  readonly mode: number;
  /** Seconds since the epoch. */
  readonly mtime: number;
  /** Bytes of content; 0 for anything but a file. */
  readonly size: number;
  /** Target of a symbolic or hard link; empty for other kinds. */
  readonly link: string;
  readonly device?: { readonly major: number; readonly minor: number };
  /** Extended attributes, one character per byte. The tar reader returns only those of users (`user.*`). */
  readonly attributes?: Attributes;
  /** True for a sparse file: its content is longer than its data in the archive. */
  readonly isSparse?: true;
  /** IDs of its user and group. Default: root. */
  readonly owner?: { readonly uid: number; readonly gid: number };
  /** True for a file with capabilities, which give a program some rights of root. */
  readonly hasCapabilities?: true;
}

export type Attributes = readonly (readonly [name: string, value: string])[];

/** Content is stored in blocks of this many bytes; the last one is padded. */
export const tarBlockSize = 512;

/** Returns the size of content including its padding, in bytes. */
export function paddedSize(size: number): number {
  return Math.ceil(size / tarBlockSize) * tarBlockSize;
}

/** Converts text to one character per byte, the form of names in a {@link TarEntry}. */
export function bytesOf(text: string): string {
  return Buffer.from(text).toString('latin1');
}

/** Formats a name of a {@link TarEntry} for a message: short, quoted, without control characters. */
export function showName(name: string): string {
  const text = Buffer.from(name, 'latin1').toString();
  return JSON.stringify(text.length > 120 ? `${text.slice(0, 120)}...` : text);
}
