import { zstdDecompressSync } from 'node:zlib';
import { nearestName } from '../../foundation/nearest-name.ts';
import { unpack } from '../repodata/shards/msgpack.ts';
import { maxShardBytes, readShardIndex } from '../repodata/shards/read-index.ts';
import { ShardPack } from '../repodata/shards/shard-pack.ts';
import { serveTask } from '../threads/one-task.ts';
import { type FoundVersion, versionsIn } from './package-versions.ts';
import { newestFirst } from './version-order.ts';

/** What to read from the repository data of one subdirectory, or versions of several to put in order. */
export type SearchOrder =
  | { readonly kind: 'names'; readonly path: string; readonly url: string }
  | {
      readonly kind: 'versions';
      readonly path: string;
      readonly url: string;
      readonly name: string;
    }
  | { readonly kind: 'nearest'; readonly name: string; readonly lists: readonly string[] }
  | { readonly kind: 'records'; readonly shard: Uint8Array }
  | { readonly kind: 'order'; readonly versions: readonly string[] };

export interface VersionsResponse {
  /** Digest of a shard that the file does not have. */
  readonly elsewhere?: string;
  readonly versions?: readonly FoundVersion[];
}

// Other names cannot be requested. A channel can write anything into its data.
const plainName = /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}$/;

serveTask((order: SearchOrder): string | undefined | VersionsResponse | readonly string[] => {
  switch (order.kind) {
    case 'names':
      return withPack(order.path, pack => {
        const names = readShardIndex(pack.index, order.url).digests.map(([name]) => name);
        const plain = names.filter(name => plainName.test(name));
        return `\n${plain.join('\n')}\n`;
      });
    case 'versions':
      return withPack(order.path, pack => {
        const { digests } = readShardIndex(pack.index, order.url);
        const digest = digests.find(([name]) => name === order.name)?.[1];
        if (digest === undefined) return { versions: [] };
        const hex = Buffer.from(digest).toString('hex');
        const shard = pack.shard(hex);
        return shard === undefined ? { elsewhere: hex } : { versions: versionsOf(shard) };
      });
    case 'nearest':
      return nearestName(order.name, new Set(order.lists.flatMap(list => list.trim().split('\n'))));
    case 'records':
      return { versions: versionsOf(order.shard) };
    case 'order':
      return newestFirst(order.versions);
  }
});

function withPack<T>(path: string, read: (pack: ShardPack) => T): T {
  const pack = new ShardPack(path);
  try {
    return read(pack);
  } finally {
    pack.close();
  }
}

function versionsOf(shard: Uint8Array): readonly FoundVersion[] {
  return versionsIn(unpack(zstdDecompressSync(shard, { maxOutputLength: maxShardBytes })));
}
