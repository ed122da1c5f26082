import type { FileTree, TreeEntry } from '../../../buildkit/index.ts';

const ignoreFile = '.dockerignore';

/** Returns the tree with a `.dockerignore`, if it has one, that excludes none of the named files. */
export function withoutIgnoring(tree: FileTree, paths: readonly string[]): FileTree {
  // The last pattern that matches a path decides.
  const exceptions = Buffer.from(`\n${paths.map(path => `!${path}\n`).join('')}`);
  const isIgnoreFile = ({ name, kind }: TreeEntry) => name === ignoreFile && kind === 'file';
  return {
    async list(directory) {
      const entries = await tree.list(directory);
      if (directory !== '') return entries;
      return entries.map(entry =>
        isIgnoreFile(entry)
          ? // Other names of the file keep the content that was sent.
            { ...entry, size: entry.size + exceptions.length, inode: undefined }
          : entry,
      );
    },
    async *read(path) {
      yield* tree.read(path);
      if (path === ignoreFile) yield exceptions;
    },
  };
}
