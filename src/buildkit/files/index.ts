/** /**
 * File trees, and how BuildKit selects files from them. A second public interface, without the client: the command
 * line selects files in the same way and is installed without gRPC.
 */

export { directoryTree } from './directory-tree.ts';
export type { FileTree, TreeEntry } from './file-tree.ts';
export { type MemoryFile, memoryTree } from './memory-tree.ts';
export { type Found, type TreeSelection, walkTree } from './tree-walk.ts';
