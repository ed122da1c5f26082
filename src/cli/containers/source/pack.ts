import { createHash } from 'node:crypto';
import { lstat, readdir, readFile, readlink } from 'node:fs/promises';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { type Header, pack as startTar } from 'tar-stream';
import { CommandError } from '../../command/command.ts';

/** A layer as a container request carries it. */
export interface PackedLayer {
  readonly location: string;
  readonly gzipDigest: string;
  readonly gzipSize: number;
  readonly tarDigest: string;
}

// Byte 9 of the gzip header is the operating system (RFC 1952, section 2.3); 255 means unknown.
const gzipSystemByte = 9;

/**
 * Packs the content of a directory into a layer for the root of the image. The same files give the same bytes on every
 * machine: entries are sorted by name and have neither times nor owners.
 */
export function packDirectory(directory: string): Promise<PackedLayer> {
  return pack(add => addEntries(directory, '', add));
}

/** Packs the added entries, in the order of their addition. */
export async function pack(addAll: (add: Add) => Promise<void>): Promise<PackedLayer> {
  const tar = startTar();
  const parts: Buffer[] = [];
  const read = (async () => {
    for await (const part of tar) parts.push(part as Buffer);
  })();
  await addAll((entry, content) => {
    const header = { ...entry, mtime: new Date(0), uid: 0, gid: 0 };
    if (content === undefined) tar.entry(header);
    else tar.entry({ ...header, size: content.length }, content);
  });
  tar.finalize();
  await read;
  const bytes = Buffer.concat(parts);
  const gzip = gzipSync(bytes, { level: 9 });
  gzip[gzipSystemByte] = 255;
  return { ...layerOf(gzip), tarDigest: sha256(bytes) };
}

/** Returns a tar.gz file as a layer with unchanged bytes. */
export function layerOf(gzip: Buffer): Omit<PackedLayer, 'tarDigest'> {
  return {
    location: `data:${gzip.toString('base64')}`,
    gzipDigest: sha256(gzip),
    gzipSize: gzip.length,
  };
}

/** An entry of a layer. The name of a directory ends in `/`. */
export type PackedEntry = Pick<Header, 'name'> &
  Partial<Pick<Header, 'type' | 'mode' | 'linkname'>>;

export type Add = (entry: PackedEntry, content?: Buffer) => void;

async function addEntries(root: string, below: string, add: Add): Promise<void> {
  const names = await readdir(join(root, below));
  for (const name of names.sort(byBytes)) {
    const path = below === '' ? name : `${below}/${name}`;
    await addEntry(root, path, add);
  }
}

async function addEntry(root: string, path: string, add: Add): Promise<void> {
  const file = join(root, path);
  const status = await lstat(file);
  const mode = status.mode & 0o7777;
  if (status.isDirectory()) {
    add({ name: `${path}/`, type: 'directory', mode });
    await addEntries(root, path, add);
  } else if (status.isSymbolicLink()) {
    const linkname = await readlink(file);
    add({ name: path, type: 'symlink', mode: 0o777, linkname });
  } else if (status.isFile()) {
    add({ name: path, type: 'file', mode }, await readFile(file));
  } else {
    throw new CommandError(
      `${file} is neither a file, a directory nor a symbolic link: remove it from the layer`,
    );
  }
}

// The order of localeCompare depends on the machine.
function byBytes(one: string, other: string): number {
  return Buffer.compare(Buffer.from(one), Buffer.from(other));
}

function sha256(bytes: Buffer): string {
  return `sha256:${createHash('sha256').update(bytes).digest('hex')}`;
}
