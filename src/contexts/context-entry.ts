import type { WrittenEntry } from '../archives/tar-writer.ts';
import type { TreeEntry } from '../buildkit/index.ts';

/** A file, directory or link of a build context. Times and owners are absent: they do not change a build. */
export interface ContextEntry extends Pick<TreeEntry, 'mode' | 'size' | 'target'> {
  /** A `link`, a hard link, is a further name of the file `target`, which comes before it. Its size is 0. */
  readonly kind: TreeEntry['kind'] | 'link';
  /** Path relative to the root of the context, such as `a/b`. */
  readonly path: string;
}

/** Media types of an uploaded build context. The format is described in docs/adr/0041. */
export const contextTypes = {
  artifact: 'application/vnd.sluice.context.v1',
  /** Type of the config: the list of entries. */
  list: 'application/vnd.sluice.context.list.v1.jsonl+gzip',
  /** Type of the layers: the concatenated content of all files, split into blobs. */
  content: 'application/vnd.sluice.context.content.v1',
} as const;

/** Returns an entry as it appears in the tar file whose digest identifies a build context. */
export function tarEntryOf({ path, kind, mode, size, target = '' }: ContextEntry): WrittenEntry {
  return kind === 'file' ? { path, kind, mode, size } : { path, kind, mode, link: target };
}
