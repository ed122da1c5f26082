import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { lstat, readdir, readFile, readlink } from 'node:fs/promises';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { createGzip } from 'node:zlib';
import {
  packedHeader,
  tarEnd,
  tarPadding,
  type WrittenEntry,
} from '../../../archives/tar-writer.ts';
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
const flushBytes = 1024 * 1024;

/**
 * Packs the content of a directory into a layer for the root of the image. The same files give the same bytes on every
 * machine: entries are sorted by name and have neither times nor owners.
 */
export function packDirectory(directory: string): Promise<PackedLayer> {
  return pack(add => addEntries(directory, '', add));
}

/** Packs the added entries, in the order of their addition. */
export async function pack(addAll: (add: Add) => Promise<void>): Promise<PackedLayer> {
  const gzip = createGzip({ level: 9 });
  const packed = buffer(gzip);
  const hash = createHash('sha256');
  let parts: Buffer[] = [];
  let size = 0;
  // The tar file is never in memory as a whole: it has at least 512 bytes for each entry.
  const flush = async () => {
    const bytes = Buffer.concat(parts);
    [parts, size] = [[], 0];
    hash.update(bytes);
    if (!gzip.write(bytes)) await once(gzip, 'drain');
  };
  await addAll(async (entry, content = Buffer.alloc(0)) => {
    const header = packedHeader({ ...entry, size: content.length });
    const added = [header, content, tarPadding(content.length)];
    parts.push(...added);
    size += added.reduce((sum, { length }) => sum + length, 0);
    if (size >= flushBytes) await flush();
  });
  parts.push(tarEnd);
  await flush();
  gzip.end();
  const bytes = await packed;
  bytes[gzipSystemByte] = 255;
  return { ...layerOf(bytes), tarDigest: `sha256:${hash.digest('hex')}` };
}

/** Returns a tar.gz file as a layer with unchanged bytes. */
export function layerOf(gzip: Buffer): Omit<PackedLayer, 'tarDigest'> {
  return {
    location: `data:${gzip.toString('base64')}`,
    gzipDigest: sha256(gzip),
    gzipSize: gzip.length,
  };
}

export type Add = (entry: WrittenEntry, content?: Buffer) => Promise<void>;

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
    await add({ path, kind: 'directory', mode });
    await addEntries(root, path, add);
  } else if (status.isSymbolicLink()) {
    await add({ path, kind: 'symlink', mode: 0o777, link: await readlink(file) });
  } else if (status.isFile()) {
    await add({ path, kind: 'file', mode }, await readFile(file));
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
