import { type PackBounds, PackProblem, readPack } from './read-pack.ts';

/** A submodule as its repository lists it. */
export interface ListedModule {
  /** Folder of the repository. */
  readonly path: string;
  /** As it is written: an address, or one relative to that of the repository. */
  readonly url: string;
  readonly commit: string;
}

/** The submodules of a commit, or the name of the file that lists them, which is not in the pack. */
export type ModulesResponse =
  | { readonly modules: readonly ListedModule[]; readonly isListed: boolean }
  | { readonly list: string };

const listName = '.gitmodules';
const mostListBytes = 64 * 1024;
const directoryMode = '40000';
const moduleMode = '160000';

/** Returns the submodules of a commit, without those that git leaves out. */
export function modulesOf(pack: Buffer, commit: string, bounds: PackBounds): ModulesResponse {
  const trees = new Map<string, Buffer>();
  const blobs = new Map<string, Buffer>();
  let root: string | undefined;
  readPack(
    pack,
    bounds,
    kind => kind !== 'tag',
    (id, { kind, content }) => {
      if (kind === 'tree') trees.set(id, content);
      else if (kind === 'blob' && content.length <= mostListBytes) blobs.set(id, content);
      else if (kind === 'commit' && id === commit) {
        root = content.toString('latin1', 'tree '.length, 'tree '.length + 40);
      }
    },
  );
  const entry = (tree: string | undefined, name: string) => {
    const content = tree === undefined ? undefined : trees.get(tree);
    if (content === undefined) throw new PackProblem('a tree is missing');
    return entryOf(content, name);
  };
  const list = entry(root, listName);
  if (list === undefined || list.mode === directoryMode)
    return { modules: [], isListed: list !== undefined };
  const text = blobs.get(list.id);
  if (text === undefined) return { list: list.id };
  const modules = listedIn(text.toString('utf8')).flatMap(({ path, url }): ListedModule[] => {
    let place: { mode: string; id: string } | undefined = { mode: directoryMode, id: root ?? '' };
    for (const name of path.split('/')) {
      place = place?.mode === directoryMode ? entry(place.id, name) : undefined;
    }
    return place?.mode === moduleMode ? [{ path, url, commit: place.id }] : [];
  });
  return { modules, isListed: true };
}

/** Source: git, `gitformat-pack` and `git ls-tree`: mode, space, name, zero, 20 bytes of a name. */
function entryOf(tree: Buffer, name: string): { mode: string; id: string } | undefined {
  for (let at = 0; at < tree.length; ) {
    const space = tree.indexOf(32, at);
    const zero = space < 0 ? -1 : tree.indexOf(0, space);
    if (zero < 0 || zero + 21 > tree.length) throw new PackProblem('a tree is damaged');
    if (tree.toString('utf8', space + 1, zero) === name) {
      const id = tree.toString('hex', zero + 1, zero + 21);
      return { mode: tree.toString('latin1', at, space), id };
    }
    at = zero + 21;
  }
  return undefined;
}

/** Reads a list of submodules. Source: git, `gitmodules` and `git config`, without what no such list has. */
export function listedIn(text: string): readonly { path: string; url: string }[] {
  const sections: { isModule: boolean; values: Map<string, string> }[] = [];
  for (const line of text.split('\n').map(it => it.trim())) {
    if (line.startsWith('[')) {
      sections.push({ isModule: line.startsWith('[submodule '), values: new Map() });
    }
    const at = line.indexOf('=');
    if (at < 0 || line.startsWith('#') || line.startsWith(';')) continue;
    const key = line.slice(0, at).trim().toLowerCase();
    sections.at(-1)?.values.set(key, unquoted(line.slice(at + 1).trim()));
  }
  return sections.flatMap(({ isModule, values }) => {
    const [path, url] = [values.get('path'), values.get('url')];
    const isLeftOut = !isModule || values.get('update') === 'none';
    return path && url && !isLeftOut ? [{ path, url }] : [];
  });
}

function unquoted(text: string): string {
  return text.length > 1 && text.startsWith('"') && text.endsWith('"') ? text.slice(1, -1) : text;
}
