import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { type Digest, digestOf } from '../../src/oci/digest.ts';
import { createTokenRegistry } from '../../src/request/tokens/token-registry.ts';
import { openContentDirectory } from '../../src/storage/content/content-directory.ts';
import { openDatabase } from '../../src/storage/rows/database.ts';
import { createHostedStore, createUploadStore } from '../../src/storage/rows/hosted/hosted-rows.ts';
import { createRequestStore } from '../../src/storage/rows/images/request-rows.ts';
import { createAccessTokenStore } from '../../src/storage/rows/people/login-rows.ts';

/** Acknowledged content, which must survive every power failure from then on. */
export type Acknowledged =
  | { readonly kind: 'blob'; readonly repository: string; readonly digest: Digest }
  /** A tag that is pushed again and again: this version, or a later one. */
  | {
      readonly kind: 'tag';
      readonly repository: string;
      readonly tag: string;
      readonly version: number;
    }
  | { readonly kind: 'deleted'; readonly repository: string; readonly tag: string }
  | { readonly kind: 'request'; readonly token: string; readonly digest: string }
  | { readonly kind: 'revoked'; readonly token: string }
  | { readonly kind: 'access token'; readonly value: string }
  /** The first bytes of an upload that has not ended, out of these. */
  | {
      readonly kind: 'chunks';
      readonly id: string;
      readonly size: number;
      readonly bytes: Buffer;
    };

const mostUploads = 10_000;

/** Returns the acknowledged content that a data directory lacks, or has damaged. */
export async function brokenOf(
  data: string,
  acknowledged: readonly Acknowledged[],
): Promise<string[]> {
  const content = await openContentDirectory(join(data, 'content'), { isOwner: true });
  const database = openDatabase(join(data, 'sluice.db'));
  const hosted = createHostedStore(database);
  const requests = createTokenRegistry(createRequestStore(database), 1, {
    async admitRequest() {},
  });
  const accessTokens = createAccessTokenStore(database);
  const uploads = createUploadStore(database);

  const isTagged = async (repository: string, tag: string, version: number): Promise<boolean> => {
    const digest = await hosted.tagged(repository, tag);
    const manifest = digest && (await content.read(digest));
    if (!manifest) return false;
    const config = await content.read(JSON.parse(manifest.toString()).config.digest);
    return config !== undefined && Number(JSON.parse(config.toString()).version) >= version;
  };
  const isServed = async (token: string, digest: string): Promise<boolean> => {
    const { fixed } = await requests.get(token);
    if (!fixed || fixed.served.digest !== digest) return false;
    const needed = [fixed.served.digest, fixed.base.digest, ...(fixed.members ?? [])];
    const found = await Promise.all(needed.map(content.read));
    return !found.includes(undefined);
  };
  const sizes = new Map<string, number>();
  /** Returns how many bytes of an upload can be continued, all of them right; -1 for none. */
  const sizeOf = async (id: string, bytes: Buffer): Promise<number> => {
    const known = sizes.get(id);
    if (known !== undefined) return known;
    const row = (await uploads.latest(mostUploads)).find(upload => upload.id === id);
    const ingest = row && (await content.resume(row));
    const isRight = ingest?.digest() === digestOf(bytes.subarray(0, row?.size));
    const size = row && isRight ? row.size : -1;
    sizes.set(id, size);
    await ingest?.abort();
    return size;
  };
  const isKept = async (entry: Acknowledged): Promise<boolean> => {
    switch (entry.kind) {
      case 'blob':
        return (
          (await hosted.blobSize(entry.repository, entry.digest)) !== undefined &&
          (await content.read(entry.digest)) !== undefined
        );
      case 'tag':
        return isTagged(entry.repository, entry.tag, entry.version);
      case 'deleted':
        return (await hosted.tagged(entry.repository, entry.tag)) === undefined;
      case 'request':
        return isServed(entry.token, entry.digest);
      case 'revoked':
        return (await requests.describe(entry.token)).expiresAt <= Date.now();
      case 'access token': {
        const hash = createHash('sha256').update(entry.value).digest();
        return (await accessTokens.findByHash(hash)) !== undefined;
      }
      case 'chunks':
        return (await sizeOf(entry.id, entry.bytes)) >= entry.size;
    }
  };

  const broken: string[] = [];
  for (const entry of acknowledged) {
    if (await isKept(entry).catch(() => false)) continue;
    broken.push(JSON.stringify({ ...entry, bytes: undefined }));
  }
  database.close();
  await content.close();
  return broken;
}
