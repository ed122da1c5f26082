import type { Header } from 'tar-stream';
import type { TreeEntry } from '../buildkit/index.ts';

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

/** The header of an entry in the tar file whose digest stands for a build context. */
export function tarHeaderOf({
  path,
  kind,
  mode,
  size,
  target,
}: ContextEntry): Partial<Header> & Pick<Header, 'name'> {
  const common = { mode, mtime: new Date(0), uid: 0, gid: 0 };
  if (kind === 'directory') return { ...common, name: `${path}/`, type: kind };
  if (kind === 'symlink') return { ...common, name: path, type: kind, linkname: target ?? '' };
  return { ...common, name: path, type: kind, size };
}
