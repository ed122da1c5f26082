/** /**
 * File trees, and how BuildKit selects files from them. A second public interface, without the client: the command
 * line selects files in the same way and is installed without gRPC.
 */

export {
  directoryTree,
  type FileTree,
  type MemoryFile,
  memoryTree,
  type TreeEntry,
} from './file-tree.ts';
export { type Found, type TreeSelection, walkTree } from './tree-walk.ts';
