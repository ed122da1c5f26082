/** What an entry is, by the type in its header. Old programs wrote NUL for a file. */
export const tarKinds = {
  '\0': 'file',
  '0': 'file',
  '1': 'link',
  '2': 'symlink',
  '3': 'character-device',
  '4': 'block-device',
  '5': 'directory',
  '6': 'fifo',
  '7': 'file',
} as const;

export type TarKind = (typeof tarKinds)[keyof typeof tarKinds];

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
  readonly owner?: TarOwner;
  /** True for a file with capabilities, which give a program some rights of root. */
  readonly hasCapabilities?: true;
}

export interface TarOwner {
  readonly uid: number;
  readonly gid: number;
}

export type Attributes = readonly (readonly [name: string, value: string])[];

/** A malformed tar file, or one that cannot be converted. The message completes a sentence that names the layer. */
export class TarError extends Error {}

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

/** Converts a name of a {@link TarEntry} to text. */
export function textOfBytes(bytes: string): string {
  return Buffer.from(bytes, 'latin1').toString();
}

/** Formats a name of a {@link TarEntry} for a message: short, quoted, without control characters. */
export function showName(name: string): string {
  const text = textOfBytes(name);
  return JSON.stringify(text.length > 120 ? `${text.slice(0, 120)}...` : text);
}
