import { createHash } from 'node:crypto';
import { lstat, readdir, readFile, readlink } from 'node:fs/promises';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { type TarEntry, tarEnd, tarHeaders, tarPadding } from '../../../contexts/layer-tar.ts';
import { CommandError } from '../../command/command.ts';

/** A layer in the form of a container request. */
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
  const parts: Buffer[] = [];
  await addAll((entry, content = Buffer.alloc(0)) => {
    const { length: size } = content;
    parts.push(...tarHeaders({ ...entry, size }), content, tarPadding(size));
  });
  const bytes = Buffer.concat([...parts, tarEnd()]);
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

export type Add = (entry: TarEntry, content?: Buffer) => void;

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
