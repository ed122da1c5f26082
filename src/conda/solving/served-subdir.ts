import { constants, zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import { plainBase } from '../channels/channel-address.ts';
import { shardFolder } from '../repodata/shards/cut-records.ts';
import { findEntry, type Packed, pack, unpack } from '../repodata/shards/msgpack.ts';
import { checkShard, maxShardBytes, readShardIndex } from '../repodata/shards/read-index.ts';
import { ShardPack } from '../repodata/shards/shard-pack.ts';
import type { SubdirOrder } from './solve-thread.ts';
import { solverSpec } from './solver-spec.ts';

/** Fetches a shard from a channel. */
export type FetchShard = (base: string, hex: string) => Promise<Uint8Array>;

const indexFile = 'repodata_shards.msgpack.zst';
const shardFile = new RegExp(`^${shardFolder}/([0-9a-f]{64})\\.msgpack\\.zst$`);

/** The files of a subdirectory that the solver reads, and the records in them. */
export class ServedSubdir {
  readonly #order: SubdirOrder;
  readonly #pack: ShardPack | undefined;
  readonly #fetch: FetchShard;
  /** Shards that were served, by digest: compressed. */
  readonly #served = new Map<string, Uint8Array>();
  #listed: { readonly archives: string; readonly digests: ReadonlyMap<string, string> } | undefined;

  constructor(order: SubdirOrder, fetch: FetchShard) {
    this.#order = order;
    this.#fetch = fetch;
    this.#pack = order.path === undefined ? undefined : new ShardPack(order.path);
  }

  /** Returns a file; undefined when there is none, or when it is not below this subdirectory. */
  async file(url: string): Promise<Uint8Array | undefined> {
    const base = `${this.#order.url}/`;
    if (!url.startsWith(base)) return undefined;
    const file = url.slice(base.length);
    if (file === indexFile) return this.#index;
    const hex = shardFile.exec(file)?.[1];
    if (hex === undefined) return undefined;
    if (this.#isHidden(hex)) return emptyShard;
    const shard = this.#pack?.shard(hex) ?? (await this.#fetched(hex));
    if (!shard) return undefined;
    this.#served.set(hex, shard);
    return readableShard(shard);
  }

  /** True when the archive of a package is listed here. */
  has(subdir: string, url: string): boolean {
    if (subdir !== this.#order.subdir) return false;
    return url.startsWith(`${this.#order.url}/`) || url.startsWith(this.#list().archives);
  }

  /** Returns the record of a package whose shard was served, as in `repodata.json`. */
  record(name: string, fileName: string): Readonly<Record<string, unknown>> | undefined {
    const shard = this.#served.get(this.#list().digests.get(name) ?? '');
    if (shard === undefined) return undefined;
    const bytes = zstdDecompressSync(shard, { maxOutputLength: maxShardBytes });
    const section = fileName.endsWith('.conda') ? 'packages.conda' : 'packages';
    const record = findEntry(bytes, [section, fileName]);
    if (typeof record !== 'object' || record === null) return undefined;
    return Object.fromEntries(
      Object.entries(record).map(([name, value]) => [
        name,
        value instanceof Uint8Array ? Buffer.from(value).toString('hex') : value,
      ]),
    );
  }

  /** Returns the names of all packages that are listed here. */
  names(): Iterable<string> {
    return this.#list().digests.keys();
  }

  close(): void {
    this.#pack?.close();
  }

  get #index(): Uint8Array {
    return this.#pack?.index ?? emptyIndex(this.#order);
  }

  #list() {
    if (this.#listed) return this.#listed;
    const { archives, digests } = readShardIndex(this.#index, this.#order.url);
    const byName = digests.map(
      ([name, digest]) => [name, Buffer.from(digest).toString('hex')] as const,
    );
    this.#listed = { archives, digests: new Map(byName) };
    return this.#listed;
  }

  #isHidden(hex: string): boolean {
    const { digests } = this.#list();
    return this.#order.hidden.some(name => digests.get(name) === hex);
  }

  async #fetched(hex: string): Promise<Uint8Array | undefined> {
    const { shards } = this.#order;
    if (shards === undefined) return undefined;
    const bytes = await this.#fetch(shards, hex);
    checkShard(bytes, `${plainBase(shards)}/${hex}.msgpack.zst`);
    return bytes;
  }
}

const emptyShard = zstdCompressSync(pack({ packages: {}, 'packages.conda': {}, removed: [] }));

/** A channel may have packages for other platforms only. The solver requires a response for each. */
function emptyIndex({ url, subdir }: SubdirOrder): Uint8Array {
  return zstdCompressSync(
    pack({
      info: { subdir, base_url: `${url}/`, shards_base_url: `${url}/${shardFolder}/` },
      shards: {},
    }),
  );
}

type Members = { readonly [name: string]: Packed };

/**
 * Returns a shard in words that the solver understands as conda does, without the packages that the shard lists as removed
 * and those that require a package of a certain channel: the solver breaks down on them. Returns a shard that it cannot read as it is: the solver reports it.
 */
export function readableShard(shard: Uint8Array): Uint8Array {
  const members = membersOf(unpacked(shard));
  if (!members) return shard;
  const removed = new Set(Array.isArray(members.removed) ? (members.removed as Packed[]) : []);
  // Builds of a package share most dependencies.
  const known = new Map<string, string>();
  const readable = (spec: Packed): Packed => {
    if (typeof spec !== 'string') return spec;
    const done = known.get(spec) ?? solverSpec(spec);
    known.set(spec, done);
    return done;
  };
  const section = (name: string): Packed | undefined => {
    const records = membersOf(members[name]);
    if (!records) return members[name];
    const kept = Object.entries(records).filter(
      ([fileName, record]) => !removed.has(fileName) && !requiresChannel(record),
    );
    return Object.fromEntries(
      kept.map(([file, record]) => [file, readableRecord(record, readable)]),
    );
  };
  const written = { ...members };
  for (const name of ['packages', 'packages.conda']) {
    const records = section(name);
    if (records !== undefined) written[name] = records;
  }
  // It is read again at once: the fastest compression.
  return zstdCompressSync(pack(written), {
    params: { [constants.ZSTD_c_compressionLevel]: 1 },
  });
}

function unpacked(shard: Uint8Array): Packed | undefined {
  try {
    return unpack(zstdDecompressSync(shard, { maxOutputLength: maxShardBytes }));
  } catch {
    return undefined;
  }
}

function requiresChannel(record: Packed): boolean {
  const { depends, constrains } = membersOf(record) ?? {};
  return [depends, constrains]
    .flatMap(list => (Array.isArray(list) ? (list as Packed[]) : []))
    .some(spec => typeof spec === 'string' && /::|\bchannel {0,9}=/.test(spec));
}

function readableRecord(record: Packed, readable: (spec: Packed) => Packed): Packed {
  const members = membersOf(record);
  if (!members) return record;
  const { depends, constrains } = members;
  return {
    ...members,
    ...(Array.isArray(depends) ? { depends: depends.map(readable) } : {}),
    ...(Array.isArray(constrains) ? { constrains: constrains.map(readable) } : {}),
  };
}

function membersOf(value: Packed | undefined): Members | undefined {
  const isMap = typeof value === 'object' && value !== null && !(value instanceof Uint8Array);
  return isMap && !Array.isArray(value) ? (value as Members) : undefined;
}
