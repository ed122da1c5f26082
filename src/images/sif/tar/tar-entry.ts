export type TarKind =
  | 'file'
  | 'directory'
  | 'symlink'
  | 'link'
  | 'fifo'
  | 'character-device'
  | 'block-device';

/**
 * One entry of a tar file. Names are bytes, and need not be UTF-8: each character of `path` and `link`
 * stands for one of them.
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
  /** What a symbolic or hard link points to, else empty. */
  readonly link: string;
  readonly device?: { readonly major: number; readonly minor: number };
  /** Extended attributes, a character a byte. What is read from a tar file has those of users (`user.*`) only. */
  readonly attributes?: Attributes;
  /** True for a file with holes, whose content is longer than what the archive has of it. */
  readonly isSparse?: true;
  /** Numbers of its user and group. Default: root. */
  readonly owner?: { readonly uid: number; readonly gid: number };
}

export type Attributes = readonly (readonly [name: string, value: string])[];

/** Content comes in blocks of so many bytes, the last one padded. */
export const tarBlockSize = 512;

/** Content of so many bytes with its padding. */
export function paddedSize(size: number): number {
  return Math.ceil(size / tarBlockSize) * tarBlockSize;
}

/** A text as one character a byte, as names are in a {@link TarEntry}. */
export function bytesOf(text: string): string {
  return Buffer.from(text).toString('latin1');
}

/** A name of a {@link TarEntry} for a message: short, quoted, without control characters. */
export function showName(name: string): string {
  const text = Buffer.from(name, 'latin1').toString();
  return JSON.stringify(text.length > 120 ? `${text.slice(0, 120)}...` : text);
}
