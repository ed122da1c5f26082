import { bytesOf, type TarEntry } from '../../../archives/index.ts';
import { type ImageTree, partsOf } from './tree.ts';

/** Path, from the image root, of the script in which `%post` of a definition file sets variables. */
export const postEnvironmentPath = '.singularity.d/env/91-environment.sh';

/** Files that the build of a definition file leaves in an image; they are input for the SIF file. */
export interface KeptScripts {
  /** The script with the variables that `%post` set. */
  readonly postEnvironment?: string | undefined;
  /** The script to which the variables of the definition file are added. */
  readonly environment?: string | undefined;
  /** Labels that `%post` wrote, one per line. */
  readonly labels?: string | undefined;
  /** The script with the variables of the image from which the base was built. */
  readonly imageEnvironment?: string | undefined;
  /** Complete scripts of the base, including the first line. */
  readonly runscript?: string | undefined;
  readonly startscript?: string | undefined;
  readonly test?: string | undefined;
  readonly help?: string | undefined;
  /** The definition file of the base. */
  readonly definition?: string | undefined;
  /** Names of the files that contain the definition files of the base's own bases. */
  readonly history?: readonly string[];
}

type Kept = Exclude<keyof KeptScripts, 'history'>;

const paths: Readonly<Record<Kept, string>> = {
  postEnvironment: postEnvironmentPath,
  environment: '.singularity.d/env/90-environment.sh',
  labels: '.build.labels',
  imageEnvironment: '.singularity.d/env/10-docker2singularity.sh',
  runscript: '.singularity.d/runscript',
  startscript: '.singularity.d/startscript',
  test: '.singularity.d/test',
  help: '.singularity.d/runscript.help',
  definition: '.singularity.d/Singularity',
};
const places = new Set(Object.values(paths));
const fileNames = new Set(Object.values(paths).map(path => path.split('/').at(-1)));
const historyFolder = ['.singularity.d', 'bootstrap_history'];

/** Larger files are ignored: nobody reads them. */
const maxBytes = 256 * 1024;

interface KeptFile {
  readonly parts: Buffer[];
  readonly size: number;
  readonly layer: number;
  readonly entry: number;
}

/** Collects the scripts that a build left, while the layers of an image are read. */
export class ScriptCollector {
  readonly #files = new Map<string, KeptFile>();
  #current: KeptFile | undefined;

  /** Returns true for an entry that is one of the scripts: its content comes next. */
  takes({ kind, path, size }: TarEntry, layer: number, entry: number): boolean {
    this.#current = undefined;
    if (kind !== 'file' || size > maxBytes) return false;
    if (!fileNames.has(path.slice(path.lastIndexOf('/') + 1))) return false;
    const place = partsOf(path).join('/');
    if (!places.has(place)) return false;
    this.#current = { parts: [], size, layer, entry };
    this.#files.set(place, this.#current);
    return true;
  }

  /** Adds part of the content, including its padding. Copies `bytes`: the caller reuses them. */
  add(bytes: Buffer): void {
    this.#current?.parts.push(Buffer.from(bytes));
  }

  /** Returns the scripts that the complete image contains. Removes the labels from the image. */
  takeFrom(tree: ImageTree): KeptScripts {
    const scripts: Partial<Record<Kept, string | undefined>> = Object.fromEntries(
      Object.entries(paths).map(([name, path]) => [name, this.#textIn(tree, path)]),
    );
    if (scripts.labels !== undefined) tree.root.children?.delete(paths.labels);
    const history = [...(tree.find(historyFolder)?.children?.keys() ?? [])];
    return { ...scripts, history };
  }

  #textIn(tree: ImageTree, path: string): string | undefined {
    const parts = path.split('/');
    const name = parts.pop() ?? '';
    const inode = tree.find(parts)?.children?.get(bytesOf(name))?.inode;
    const file = this.#files.get(path);
    if (inode?.kind !== 'file' || !file) return undefined;
    if (inode.layer !== file.layer || inode.entry !== file.entry) return undefined;
    return Buffer.concat(file.parts).toString('utf8', 0, file.size);
  }
}
