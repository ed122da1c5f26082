import { zstdDecompressSync } from 'node:zlib';
import { plainBase } from '../../channels/channel-address.ts';
import { RepodataError } from './json-records.ts';
import { findEntry, unpack } from './msgpack.ts';

const maxIndexBytes = 64 * 1024 * 1024;
/** Larger than any shard that a channel should have: some thousand records. */
export const maxShardBytes = 32 * 1024 * 1024;

/** The index of sharded repository data. Source: CEP 16. */
export interface ShardIndex {
  /** Absolute URL of the archives, with a slash at the end. */
  readonly archives: string;
  /** Absolute URL of the shards, with a slash at the end. */
  readonly shards: string;
  /** Digests (32 bytes) by package name. */
  readonly digests: readonly (readonly [name: string, digest: Uint8Array])[];
}

/** Reads an index. Throws a {@link RepodataError}. */
export function readShardIndex(bytes: Uint8Array, subdirUrl: string): ShardIndex {
  const { info, shards } = members(unpackWhole(bytes, maxIndexBytes));
  const { base_url: archives = './', shards_base_url: place = './' } = members(info);
  const digests = Object.entries(members(shards)).map(([name, digest]) => {
    if (!(digest instanceof Uint8Array) || digest.length !== 32) {
      throw new RepodataError('is not an index of shards: a digest does not have 32 bytes');
    }
    return [name, digest] as const;
  });
  return {
    // The addresses of packages go into lock files.
    archives: `${plainBase(absolute(archives, subdirUrl))}/`,
    shards: absolute(place, subdirUrl),
    digests,
  };
}

/** Throws a {@link RepodataError} for bytes that are not a shard. */
export function checkShard(bytes: Uint8Array, url: string): void {
  try {
    if (findEntry(unzip(bytes, maxShardBytes), ['packages']) !== undefined) return;
  } catch (error) {
    const why = error instanceof RepodataError ? error.message : 'is damaged or incomplete';
    throw new RepodataError(`${url} ${why}`, { cause: error });
  }
  throw new RepodataError(`${url} has no packages`);
}

/** Returns the value of compressed MessagePack. Throws a {@link RepodataError}. */
function unpackWhole(bytes: Uint8Array, limit: number): unknown {
  const unzipped = unzip(bytes, limit);
  try {
    return unpack(unzipped);
  } catch (cause) {
    throw new RepodataError('is damaged or incomplete', { cause });
  }
}

function unzip(bytes: Uint8Array, limit: number): Buffer {
  if (!isZstd(bytes)) {
    const begin = Buffer.from(bytes.subarray(0, 40)).toString('utf8');
    throw new RepodataError(`is not repository data: it begins with ${JSON.stringify(begin)}`);
  }
  try {
    return zstdDecompressSync(bytes, { maxOutputLength: limit });
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE') {
      throw new RepodataError(`unpacks to more than ${limit} bytes`, { cause });
    }
    throw new RepodataError('is damaged or incomplete', { cause });
  }
}

function isZstd(bytes: Uint8Array): boolean {
  return bytes[0] === 0x28 && bytes[1] === 0xb5 && bytes[2] === 0x2f && bytes[3] === 0xfd;
}

function members(value: unknown): Readonly<Record<string, unknown>> {
  const isMap =
    typeof value === 'object' &&
    value !== null &&
    !Array.isArray(value) &&
    !(value instanceof Uint8Array);
  if (!isMap) throw new RepodataError('is not an index of shards');
  return value as Record<string, unknown>;
}

function absolute(text: unknown, subdirUrl: string): string {
  const base = `${subdirUrl}/`;
  const url =
    typeof text === 'string' && URL.canParse(text, base) ? new URL(text, base) : undefined;
  if (url?.protocol !== 'https:' && url?.protocol !== 'http:') {
    throw new RepodataError('is not an index of shards: it has an address that is not a URL');
  }
  return url.href.endsWith('/') ? url.href : `${url.href}/`;
}
