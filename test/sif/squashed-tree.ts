import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { constants, createReadStream } from 'node:fs';
import { lstat, readdir, readlink } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import { promisify } from 'node:util';
import { makeTempDir } from '../world/temp-dir.ts';
import { requireCommand } from '../world/tools.ts';

/** What is at a path, as text: type, permissions, and content or target. */
export type Tree = Readonly<Record<string, string>>;

const types: Readonly<Record<number, string>> = {
  [constants.S_IFIFO]: 'fifo',
  [constants.S_IFCHR]: 'character',
  [constants.S_IFDIR]: 'directory',
  [constants.S_IFBLK]: 'block',
  [constants.S_IFREG]: 'file',
  [constants.S_IFLNK]: 'symlink',
};

/** Unpacks the file system in a SIF file, as root, and returns what is in it; names are bytes in Latin-1. */
export async function squashedTree(
  path: string,
  offset: number,
  unsquashfs = requireCommand('unsquashfs'),
): Promise<Tree> {
  await using directory = await makeTempDir('squashed');
  const root = directory.join('root');
  const args = ['-no-progress', '-quiet', '-no-xattrs', '-offset', String(offset)];
  await promisify(execFile)(unsquashfs, [...args, '-dest', root, path]);
  const tree: Record<string, string> = {};
  await addTree(Buffer.from(root), '', tree);
  return tree;
}

async function addTree(place: Buffer, name: string, tree: Record<string, string>): Promise<void> {
  const status = await lstat(place);
  const type = types[status.mode & constants.S_IFMT] ?? 'unknown';
  const mode = (status.mode & 0o7777).toString(8).padStart(4, '0');
  const about = `${type} ${type === 'symlink' ? '' : mode}`.trim();
  if (type === 'symlink') {
    tree[name] = `${about} ${(await readlink(place, 'buffer')).toString('latin1')}`;
  } else if (type === 'file') {
    tree[name] = `${about} ${status.size} ${await digestOf(place)}`;
  } else if (type === 'character' || type === 'block') {
    tree[name] = `${about} ${status.rdev >> 8}:${status.rdev & 0xff}`;
  } else {
    tree[name || '/'] = about;
  }
  if (type !== 'directory') return;
  for (const child of await readdir(place, 'buffer')) {
    const childName = child.toString('latin1');
    const childPlace = Buffer.concat([place, Buffer.from('/'), child]);
    await addTree(childPlace, name === '' ? childName : `${name}/${childName}`, tree);
  }
}

async function digestOf(place: Buffer): Promise<string> {
  const hash = createHash('sha256');
  await pipeline(createReadStream(place), hash);
  return hash.digest('hex').slice(0, 16);
}
