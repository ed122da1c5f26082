import { Fault } from '../../../foundation/fault.ts';
import { keySeparator, type ListedEntry } from '../listed-entry.ts';
import { changeOf, isBelow, type LayerChange, type LayerEvent } from './merge-layers.ts';

/** A file of a layer, or one that the layer removes. */
export interface LayerNode {
  /** One character for each byte; empty for the root. */
  readonly name: string;
  kind: ListedEntry['kind'];
  change: LayerChange;
  /** True for a directory that the layer does not contain itself, only something below it. */
  isImplicit: boolean;
  mode: number;
  uid: number;
  gid: number;
  hasCapabilities: boolean;
  link: string;
  /** Bytes, mode and owner below this layer, where something was there. */
  before: Pick<ListedEntry, 'size' | 'mode' | 'uid' | 'gid'> | undefined;
  /** Bytes of the file, or of all files of the layer below the directory. */
  bytes: number;
  files: number;
  /** Files of the layers below that this layer removes here, and their bytes. */
  goneFiles: number;
  goneBytes: number;
  /** How many names at and below this one the layer adds, changes, and so on. */
  readonly counts: Record<Exclude<LayerChange, 'kept'>, number>;
}

/** A node, and those directly below it in the order of their names. */
export interface BuiltNode extends LayerNode {
  readonly children: BuiltNode[];
}

export interface BuiltTree {
  readonly root: BuiltNode;
  /** Nodes, the root included. */
  readonly count: number;
  readonly biggest: readonly { readonly key: string; readonly bytes: number }[];
  /** Programs that run with the rights of their owner or group, or have capabilities. */
  readonly privileged: readonly string[];
}

const mostBiggest = 20;
const mostPrivileged = 100;
const setIds = 0o6000;

/**
 * Makes the tree of a layer from what the layers up to it do. Throws a {@link Fault} for one with too many nodes.
 *
 * @param layer its number; events of other layers are ignored
 */
export function buildTree(
  layer: number,
  events: Iterable<LayerEvent>,
  maxEntries: number,
): BuiltTree {
  const root = newNode('', 'directory');
  root.isImplicit = true;
  // The directories above the current path.
  const open: { readonly key: string; readonly node: BuiltNode }[] = [{ key: '', node: root }];
  const biggest = new TopList<{ key: string; bytes: number }>(mostBiggest, ({ bytes }) => bytes);
  const privileged: string[] = [];
  let count = 1;

  const close = (): void => {
    const below = open.pop()?.node;
    const above = open.at(-1)?.node;
    if (below && above) addTo(above, below);
  };
  const put = (key: string, kind: ListedEntry['kind']): BuiltNode => {
    count += 1;
    if (count > maxEntries) throw tooMany(maxEntries);
    const node = newNode(key.slice(key.lastIndexOf(keySeparator) + 1), kind);
    open.at(-1)?.node.children.push(node);
    open.push({ key, node });
    return node;
  };
  /** Opens the directory of a path; undefined for a removed path below one that is counted as a whole. */
  const enter = (key: string, isRemoved: boolean): BuiltNode | undefined => {
    while (open.length > 1 && !isBelow(key, open.at(-1)?.key ?? '')) close();
    const top = open.at(-1);
    const isWhole = top?.node.change === 'removed' || top?.node.kind !== 'directory';
    if (isWhole && isRemoved) return undefined;
    // Removed, and made again for this path.
    if (isWhole && top)
      Object.assign(top.node, { kind: 'directory', change: 'kept', isImplicit: true });
    let from = top && top.key !== '' ? top.key.length + 1 : 0;
    for (let end = key.indexOf(keySeparator, from); end >= 0; ) {
      put(key.slice(0, end), 'directory').isImplicit = true;
      from = end + 1;
      end = key.indexOf(keySeparator, from);
    }
    return open.at(-1)?.node;
  };

  for (const event of events) {
    if (event.layer !== layer) continue;
    const { key, entry, before } = event;
    if (!enter(key, entry === undefined)) {
      const node = open.at(-1)?.node;
      // No layer may contain the directory itself, only something below it.
      if (node?.change === 'removed') node.kind = 'directory';
      if (node && before) countGone(node, before.entry);
      continue;
    }
    const node = key === '' ? root : put(key, entry?.kind ?? before?.entry.kind ?? 'file');
    if (!entry) {
      node.change = 'removed';
      node.counts.removed = 1;
      if (before) countGone(node, before.entry);
      continue;
    }
    fill(node, entry, event);
    if (entry.kind === 'file') biggest.add({ key, bytes: entry.size });
    const isPrivileged = (entry.mode & setIds) !== 0 || entry.hasCapabilities;
    if (isPrivileged && entry.kind === 'file' && privileged.length < mostPrivileged)
      privileged.push(key);
  }
  while (open.length > 1) close();
  return { root, count, biggest: biggest.take(), privileged };
}

function newNode(name: string, kind: ListedEntry['kind']): BuiltNode {
  return {
    name,
    kind,
    change: 'kept',
    isImplicit: false,
    hasCapabilities: false,
    mode: 0,
    uid: 0,
    gid: 0,
    link: '',
    before: undefined,
    bytes: 0,
    files: 0,
    goneFiles: 0,
    goneBytes: 0,
    counts: { added: 0, changed: 0, attributes: 0, again: 0, removed: 0 },
    children: [],
  };
}

function fill(node: BuiltNode, entry: ListedEntry, { before }: LayerEvent): void {
  const { kind, mode, uid, gid, hasCapabilities, link, size } = entry;
  const change = changeOf(entry, before);
  Object.assign(node, { kind, change, mode, uid, gid, hasCapabilities, link });
  node.isImplicit = false;
  node.bytes = size;
  node.files = kind === 'directory' ? 0 : 1;
  if (change !== 'kept') node.counts[change] = 1;
  if (!before) return;
  const { entry: other } = before;
  node.before = { size: other.size, mode: other.mode, uid: other.uid, gid: other.gid };
}

function countGone(node: BuiltNode, { kind, size }: ListedEntry): void {
  if (kind !== 'directory') node.goneFiles += 1;
  node.goneBytes += size;
}

function addTo(above: BuiltNode, below: BuiltNode): void {
  above.bytes += below.bytes;
  above.files += below.files;
  above.goneFiles += below.goneFiles;
  above.goneBytes += below.goneBytes;
  for (const name of Object.keys(above.counts) as (keyof LayerNode['counts'])[]) {
    above.counts[name] += below.counts[name];
  }
}

function tooMany(most: number): Fault {
  return new Fault(
    'too-large',
    `The layer changes more than ${most} files: Sluice does not list such layers`,
    { phase: 'layer' },
  );
}

/** Keeps the largest items of many. */
export class TopList<T> {
  readonly #most: number;
  readonly #sizeOf: (item: T) => number;
  #items: T[] = [];

  constructor(most: number, sizeOf: (item: T) => number) {
    this.#most = most;
    this.#sizeOf = sizeOf;
  }

  add(item: T): void {
    this.#items.push(item);
    if (this.#items.length >= this.#most * 8) this.#items = this.take();
  }

  /** Returns the largest items, the largest first. */
  take(): T[] {
    return this.#items
      .toSorted((one, other) => this.#sizeOf(other) - this.#sizeOf(one))
      .slice(0, this.#most);
  }
}
