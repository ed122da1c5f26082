import { constants, zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import { type Packed, pack } from '../repodata/shards/msgpack.ts';
import { unpack } from '../repodata/shards/msgpack-reader.ts';
import { maxShardBytes } from '../repodata/shards/read-index.ts';
import { solverSpec } from './solver-spec.ts';

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
