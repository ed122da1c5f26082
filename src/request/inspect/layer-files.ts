import { Fault } from '../../foundation/fault.ts';
import {
  DamagedListing,
  type ImageWaste,
  keySeparator,
  type LayerChange,
  type LayerListings,
  type LayerLook,
  type ListingProgress,
  type ListingQuery,
  layerChanges,
  type OpenedTree,
  type StoredNode,
  type TreeIndex,
  type TreeSort,
} from '../../images/listing/index.ts';
import { type CredentialSource, credentialKey } from '../../upstream/auth/index.ts';
import { type ChosenImage, chooseImage, type OpenInspected } from './inspect.ts';
import type { OpenLayers } from './inspected-layers.ts';

/** Which files of a layer are asked for. */
export interface LayerFilesQuery {
  readonly image: string;
  readonly platform?: string | undefined;
  /** As {@link layerAt} reads it. Default: the highest. */
  readonly layer?: string | undefined;
  /** A directory, as {@link addressText} writes it. Default: the root. */
  readonly path?: string | undefined;
  /** Default: size. */
  readonly sort?: TreeSort | undefined;
  /** Part of a name that is searched in the whole layer. */
  readonly name?: string | undefined;
  readonly change?: string | undefined;
  readonly page?: number | undefined;
}

/** What is known about the files of a layer by now. */
export interface LayerFiles {
  readonly chosen: ChosenImage;
  /** Number of the layer, counted from 0, the lowest first. */
  readonly at: number;
  readonly progress: ListingProgress | undefined;
  readonly failure: string | undefined;
  readonly isCompared: boolean;
  readonly waste: ImageWaste | undefined;
  readonly contents: LayerContents | undefined;
}

/** The files of a layer that are shown. */
export interface LayerContents {
  readonly root: StoredNode;
  readonly index: TreeIndex;
  /** The directory whose files are shown; undefined for a search. */
  readonly directory: StoredNode | undefined;
  /** Names from the root to it. */
  readonly names: readonly string[];
  readonly rows: readonly LayerRow[];
  readonly count: number;
  /** True if a search has found more than it sorts. */
  readonly isCut: boolean;
  readonly page: number;
  readonly pages: number;
}

export interface LayerRow {
  readonly node: StoredNode;
  readonly directory: RowDirectory;
}

/** The directory of a row. */
export interface RowDirectory {
  /** Names from the root to it. */
  readonly names: readonly string[];
  /** The same, as an address names it. */
  readonly address: string;
}

export interface LayerFilesDeps {
  readonly openInspected: OpenInspected;
  readonly openLayers: OpenLayers;
  readonly layerListings: LayerListings;
}

export interface LayerFilesCaller {
  readonly credentials: CredentialSource;
  /** The person, or the network of a caller without a login. */
  readonly caller: string;
  /** How long the caller waits for layers that are being read (ms). Default: not at all. */
  readonly waitMs?: number;
  /** Aborts when the caller has left. */
  readonly signal: AbortSignal;
}

const rowsOfPage = 100;

/** Returns files of a layer. Throws a `Fault`, the same as for the image, and the reason of the signal. */
export async function layerFiles(
  asked: LayerFilesQuery,
  { credentials, caller, waitMs = 0, signal }: LayerFilesCaller,
  { openInspected, openLayers, layerListings }: LayerFilesDeps,
): Promise<LayerFiles> {
  const chosen = await chooseImage(openInspected, asked.image, asked.platform, credentials);
  const at = layerAt(
    chosen.manifest.layers.map(({ digest }) => digest),
    asked.layer,
  );
  if (at === undefined) {
    throw new Fault(
      'not-found',
      'The image has no such layer: choose one of those that its manifest lists',
      { phase: 'request' },
    );
  }
  const layers = await openLayers(chosen.opened, chosen.manifest.layers);
  const { access } = chosen.opened;
  const query = { layers, at, accessKey: credentialKey(access.credentials), caller };
  const problem = layers[at]?.problem;
  if (problem !== undefined) {
    const nothing = { progress: undefined, waste: undefined, contents: undefined };
    return { chosen, at, ...nothing, isCompared: false, failure: problem };
  }
  await using look = await layerListings.look(query, waitMs, signal);
  const { progress, failure, isCompared, waste, tree } = look;
  const contents = tree && (await readContents(tree, asked, look, query, layerListings, signal));
  return { chosen, at, progress, failure, isCompared, waste, contents };
}

async function readContents(
  tree: OpenedTree,
  asked: LayerFilesQuery,
  look: LayerLook,
  query: ListingQuery,
  listings: LayerListings,
  signal: AbortSignal,
): Promise<LayerContents> {
  try {
    return await contentsOf(tree, asked, look.isCompared, signal);
  } catch (error) {
    if (!(error instanceof DamagedListing)) throw error;
    await listings.discard(query);
    throw new Fault(
      'unavailable',
      'The kept list of files is damaged, and is made again: try again',
      {
        phase: 'store',
        cause: error,
        retryAfterSeconds: 1,
      },
    );
  }
}

async function contentsOf(
  tree: OpenedTree,
  { path = '', sort = 'size', name = '', change, page: wanted = 1 }: LayerFilesQuery,
  isCompared: boolean,
  signal: AbortSignal,
): Promise<LayerContents> {
  const { root, index } = tree;
  const kind = layerChanges.find(one => one === change);
  const window = { sort, offset: (wanted - 1) * rowsOfPage, limit: rowsOfPage };
  const isSearch = name !== '' || kind !== undefined;
  if (isSearch) {
    const found = await searchNames(tree, name, kind, sort, wanted, signal);
    return { root, index, names: [], directory: undefined, ...found };
  }
  const directory = await tree.find(namesIn(path));
  if (!directory) {
    const hint = isCompared ? '' : ', unless it is found when the layers are compared';
    throw new Fault('not-found', `The layer has no such directory${hint}`, { phase: 'request' });
  }
  const nodes = await tree.children(directory, window);
  const names = await tree.pathOf(directory);
  const above = { names, address: addressText(names) };
  const { childCount: count } = directory;
  return {
    root,
    index,
    directory,
    names,
    count,
    isCut: false,
    rows: nodes.map(node => ({ node, directory: above })),
    page: wanted,
    pages: Math.max(1, Math.ceil(count / rowsOfPage)),
  };
}

async function searchNames(
  tree: OpenedTree,
  name: string,
  change: LayerChange | undefined,
  sort: TreeSort,
  page: number,
  signal: AbortSignal,
): Promise<Pick<LayerContents, 'rows' | 'count' | 'isCut' | 'page' | 'pages'>> {
  const window = { sort, offset: (page - 1) * rowsOfPage, limit: rowsOfPage };
  const asked = { text: name.toLowerCase(), change };
  const { nodes, count, shown } = await tree.search(asked, window, signal);
  const rows: LayerRow[] = [];
  const directories = new Map<number, RowDirectory>();
  for (const node of nodes) {
    let directory = directories.get(node.parent);
    if (!directory) {
      const names = await tree.pathOf(await tree.node(node.parent));
      directory = { names, address: addressText(names) };
      directories.set(node.parent, directory);
    }
    rows.push({ node, directory });
  }
  const pages = Math.max(1, Math.ceil(shown / rowsOfPage));
  return { rows, count, isCut: shown < count, page, pages };
}

/** Returns a path for an address. Bytes that are not UTF-8, and percent signs, are written as `%ff`. */
export function addressText(names: readonly string[]): string {
  return names.map(textOfName).join('/');
}

/** Returns the address of something in a directory. */
export function belowAddress(directory: string, name: string): string {
  return directory === '' ? textOfName(name) : `${directory}/${textOfName(name)}`;
}

/** Reads the path of an address. */
function namesIn(text: string): readonly string[] {
  return text
    .split('/')
    .filter(name => name !== '')
    .map(name =>
      Buffer.from(name)
        .toString('latin1')
        .replace(/%([0-9a-f]{2})/g, (_, hex: string) => String.fromCharCode(Number(`0x${hex}`))),
    );
}

function textOfName(name: string): string {
  const bytes = Buffer.from(name, 'latin1');
  const text = bytes.toString();
  const isText = Buffer.from(text).equals(bytes);
  const escaped = (one: string) => `%${one.charCodeAt(0).toString(16).padStart(2, '0')}`;
  return isText ? text.replaceAll('%', escaped) : name.replace(/[%\x80-\xff]/g, escaped);
}

/** Returns a name of a layer as text. */
export function nameText(name: string): string {
  return Buffer.from(name, 'latin1').toString();
}

/** Returns a key of a listing as the text of a path. */
export function keyText(key: string): string {
  return `/${nameText(key.replaceAll(keySeparator, '/'))}`;
}

/** Returns a key of a listing as an address names it. */
export function keyAddress(key: string): string {
  return addressText(key.split(keySeparator));
}

/** Returns the directory of a key, as an address names it. */
export function directoryOfKey(key: string): string {
  return addressText(key.split(keySeparator).slice(0, -1));
}

/**
 * Returns how an address names a layer: by its digest, and by its number where the image has the digest more than once.
 *
 * @param at position in the digests, the lowest layer first
 */
export function layerName(digests: readonly string[], at: number): string {
  const digest = digests[at] ?? '';
  return repeatedIn(digests).has(digest) ? `${digest}@${at + 1}` : digest;
}

// A page names each of the thousands of layers that an image may have.
const repeatedNames = new WeakMap<readonly string[], ReadonlySet<string>>();

/** Returns the digests that are in a list more than once. */
function repeatedIn(digests: readonly string[]): ReadonlySet<string> {
  const known = repeatedNames.get(digests);
  if (known) return known;
  const seen = new Set<string>();
  const twice = new Set(digests.filter(digest => seen.size === seen.add(digest).size));
  repeatedNames.set(digests, twice);
  return twice;
}

/**
 * Returns the position of a layer; undefined when the image has no such layer.
 *
 * @param name as {@link layerName} returns it, or the number of the layer, counted from 1. Default: the highest
 */
function layerAt(digests: readonly string[], name = String(digests.length)): number | undefined {
  if (/^\d+$/.test(name))
    return digests[Number(name) - 1] === undefined ? undefined : Number(name) - 1;
  const [digest = '', number] = name.split('@');
  const at = number === undefined ? digests.indexOf(digest) : Number(number) - 1;
  return at >= 0 && digests[at] === digest ? at : undefined;
}
