import { createHash } from 'node:crypto';
import { zstdCompressSync } from 'node:zlib';
import { type Packed, pack } from '../../../src/conda/repodata/shards/msgpack.ts';

/** Files of sharded repository data by their names. Source: CEP 16. */
export function shardedFiles(
  subdir: string,
  packages: Readonly<
    Record<string, readonly { readonly [name: string]: Packed; readonly version: string }[]>
  >,
  shardsUrl = './shards/',
  archivesUrl = './',
): Map<string, Buffer> {
  const files = new Map<string, Buffer>();
  const shards: Record<string, Buffer> = {};
  for (const [name, records] of Object.entries(packages)) {
    const entries = records.map(record => {
      const full = { name, build: '0', build_number: 0, depends: [], subdir, ...record };
      return [`${name}-${full.version}-0.conda`, full];
    });
    const shard = zstdCompressSync(
      pack({ packages: {}, 'packages.conda': Object.fromEntries(entries), removed: [] }),
    );
    const digest = createHash('sha256').update(shard).digest();
    shards[name] = digest;
    files.set(`shards/${digest.toString('hex')}.msgpack.zst`, shard);
  }
  const info = { subdir, base_url: archivesUrl, shards_base_url: shardsUrl };
  files.set('repodata_shards.msgpack.zst', zstdCompressSync(pack({ info, shards })));
  return files;
}

/** `repodata.json` with packages of these names and versions, `name version` each. */
export function repodataOf(subdir: string, packages: readonly string[]): string {
  const records = packages.map(text => {
    const [name = '', version = ''] = text.split(' ');
    const record = { name, version, build: '0', build_number: 0, depends: [], subdir };
    return [`${name}-${version}-0.conda`, record];
  });
  return JSON.stringify({
    info: { subdir },
    packages: {},
    'packages.conda': Object.fromEntries(records),
  });
}
