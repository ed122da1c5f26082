import { bytesOf, type TarEntry } from '../tar/entry.ts';
import { type ImageTree, partsOf } from './tree.ts';

const folder = ['.singularity.d', 'env'];
const fileName = '91-environment.sh';

/** Where the `%post` of a definition file writes variables, from the root of an image. */
export const postEnvironmentPath = [...folder, fileName].join('/');

/** What is larger is no environment that anybody reads. */
const maxBytes = 64 * 1024;

/** Keeps the script that `%post` has written, while the layers of an image are read. */
export class PostEnvironment {
  #parts: Buffer[] = [];
  #size = 0;
  #layer = -1;
  #entry = -1;

  /** True for an entry that is the script: its content comes next. */
  takes({ kind, path, size }: TarEntry, layer: number, entry: number): boolean {
    const isScript =
      kind === 'file' && path.endsWith(fileName) && partsOf(path).join('/') === postEnvironmentPath;
    if (!isScript || size > maxBytes) return false;
    this.#parts = [];
    this.#size = size;
    this.#layer = layer;
    this.#entry = entry;
    return true;
  }

  /** Part of the content, its padding included: a view of bytes that change. */
  add(bytes: Buffer): void {
    this.#parts.push(Buffer.from(bytes));
  }

  /** The script, where all layers together have it; undefined where they do not. */
  textIn(tree: ImageTree): string | undefined {
    const inode = tree.find(folder)?.children?.get(bytesOf(fileName))?.inode;
    if (inode?.kind !== 'file') return undefined;
    if (inode.layer !== this.#layer || inode.entry !== this.#entry) return undefined;
    return Buffer.concat(this.#parts).toString('utf8', 0, this.#size);
  }
}
