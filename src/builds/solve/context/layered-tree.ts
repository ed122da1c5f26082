import { posix } from 'node:path';
import type { FileTree } from '../../../buildkit/index.ts';

/** Returns both trees as one. Where both have an entry of the same name, the upper one wins; directories are merged. */
export function layeredTree(upper: FileTree, lower: FileTree): FileTree {
  return {
    async list(directory) {
      const above = await upper.list(directory);
      const names = new Set(above.map(({ name }) => name));
      const below = await lower.list(directory);
      return [...above, ...below.filter(({ name }) => !names.has(name))];
    },
    async *read(path) {
      const directory = path.slice(0, Math.max(0, path.lastIndexOf('/')));
      const above = await upper.list(directory);
      const isAbove = above.some(({ name }) => name === posix.basename(path));
      yield* (isAbove ? upper : lower).read(path);
    },
  };
}
