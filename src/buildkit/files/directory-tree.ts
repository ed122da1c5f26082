import { createReadStream } from 'node:fs';
import { lstat, readdir, readlink } from 'node:fs/promises';
import { join } from 'node:path';
import type { FileTree, TreeEntry } from './file-tree.ts';

const readBytes = 256 * 1024;
const statsAtOnce = 64;

/**
 * Returns a tree of the files below a local directory. Symlinks stay symlinks and are never followed here. Sockets
 * are left out, as BuildKit does. Pipes and devices are left out too, unless `marksSpecial` is true. Errors are those of
 * the file system.
 */
export function directoryTree(root: string, { marksSpecial = false } = {}): FileTree {
  return {
    async list(directory) {
      const path = join(root, directory);
      const names = await readdir(path, { encoding: 'buffer' }).catch(error => {
        if (directory === '' || !isAbsent(error)) throw error;
        return [];
      });
      const entries: TreeEntry[] = [];
      for (let start = 0; start < names.length; start += statsAtOnce) {
        const some = names.slice(start, start + statsAtOnce);
        const found = await Promise.all(some.map(name => entryOf(path, textOf(name, path))));
        for (const entry of found) {
          if (entry && (marksSpecial || !entry.isSpecial)) entries.push(entry);
        }
      }
      return entries;
    },
    read: path => createReadStream(join(root, path), { highWaterMark: readBytes }),
  };
}

/** Returns the text that all names of one file share. A number of JavaScript is too short for some file systems. */
async function inodeOf(path: string): Promise<string> {
  const { dev, ino } = await lstat(path, { bigint: true });
  return `${dev}:${ino}`;
}

async function entryOf(directory: string, name: string): Promise<TreeEntry | undefined> {
  const path = join(directory, name);
  const found = await lstat(path);
  const common = { name, mode: found.mode & 0o7777, mtimeMs: found.mtimeMs };
  if (found.isFile()) {
    const file = { ...common, kind: 'file', size: found.size } as const;
    return found.nlink > 1 ? { ...file, inode: await inodeOf(path) } : file;
  }
  if (found.isDirectory()) return { ...common, kind: 'directory', size: 0 };
  if (found.isSocket()) return undefined;
  if (!found.isSymbolicLink()) return { ...common, kind: 'file', size: 0, isSpecial: true };
  return { ...common, kind: 'symlink', size: 0, target: await readlink(path) };
}

// The builder accepts only UTF-8 names.
function textOf(name: Buffer, directory: string): string {
  const text = name.toString();
  if (!Buffer.from(text).equals(name)) {
    throw new Error(`A file in ${directory} has a name that is not UTF-8: ${text}`);
  }
  return text;
}

function isAbsent({ code }: NodeJS.ErrnoException): boolean {
  return code === 'ENOENT' || code === 'ENOTDIR';
}
