import type { FileTree } from '../../../buildkit/index.ts';

// The umask of Apptainer's own copies, and the bits that `cp` without `-p` leaves out.
const leftOut = 0o7002;

/** Returns the tree with the modes that copies of its files get from `cp`, as Apptainer runs it. */
export function withCopyModes(tree: FileTree): FileTree {
  return {
    async list(directory) {
      const entries = await tree.list(directory);
      return entries.map(entry => ({ ...entry, mode: entry.mode & ~leftOut }));
    },
    read: path => tree.read(path),
  };
}
