import type { TreeEntry } from '../buildkit/index.ts';
import type { TarEntry } from './layer-tar.ts';

/** A file, directory or symbolic link of a build context, without what does not change a build: times and owners. */
export interface ContextEntry extends Pick<TreeEntry, 'kind' | 'mode' | 'size' | 'target'> {
  /** From the root of the context, `a/b`. */
  readonly path: string;
}

/** Media types of an uploaded build context. The format is described in docs/adr/0041. */
export const contextTypes = {
  artifact: 'application/vnd.sluice.context.v1',
  /** Its config: the list of entries. */
  list: 'application/vnd.sluice.context.list.v1.jsonl+gzip',
  /** Its layers: the content of all files, one after the other, cut into blobs. */
  content: 'application/vnd.sluice.context.content.v1',
} as const;

/** Returns an entry as it is in the tar file whose digest stands for a build context. */
export function tarEntryOf({ path, kind, mode, size, target }: ContextEntry): TarEntry {
  if (kind === 'directory') return { mode, name: `${path}/`, type: kind };
  if (kind === 'symlink') return { mode, name: path, type: kind, linkname: target ?? '' };
  return { mode, name: path, type: 'file', size };
}
