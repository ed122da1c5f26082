import { join } from 'node:path';
import { type ContentDirectoryOptions, openContentDirectory } from './content/content-directory.ts';
import type { ContentStore } from './content/content-store.ts';
import { type Bucket, openBucket } from './objects/bucket.ts';
import { openContentObjects } from './objects/content-objects.ts';
import type { Rows } from './rows/rows.ts';
import { type ContentPlace, contentOfData, requireContent } from './whole-data.ts';

/** Where the content of a site is. */
export interface SiteContentPlace {
  /** The data directory. */
  readonly data: string;
  /** `directory`, or the address of a bucket. */
  readonly content: string;
  readonly s3: {
    readonly endpoint?: string | undefined;
    readonly region?: string | undefined;
    readonly pathStyle: boolean;
    readonly cacheBytes: number;
    readonly redirect: boolean;
    readonly publicEndpoint?: string | undefined;
  };
}

/** Options of a directory, which are those of a bucket as well. */
export interface SiteContentOptions extends Omit<ContentDirectoryOptions, 'uses' | 'isReadOnly'> {
  /** Uses the content, even when it belonged to another database. */
  readonly adopt?: boolean;
}

/** True when content is in the data directory. */
export function isDirectory({ content }: Pick<SiteContentPlace, 'content'>): boolean {
  return content === 'directory';
}

/** Returns the directory of the content, or of its copies on this machine. */
export function localContent(place: Pick<SiteContentPlace, 'data' | 'content'>): string {
  return join(place.data, isDirectory(place) ? 'content' : 'bucket');
}

/**
 * Opens the content of a site. Throws a {@link Fault} when it cannot be reached, or does not belong to the rows.
 */
export async function openSiteContent(
  place: SiteContentPlace,
  rows: Rows,
  { adopt = false, ...options }: SiteContentOptions,
): Promise<ContentStore> {
  const uses = rows.contentRows;
  if (isDirectory(place)) {
    await requireContent(contentOfData(place.data), rows, adopt);
    return openContentDirectory(localContent(place), { ...options, uses });
  }
  const { endpoint, region, pathStyle, cacheBytes, redirect, publicEndpoint } = place.s3;
  const address = place.content;
  const bucket = await openBucket({ address, endpoint, region, pathStyle, publicEndpoint });
  try {
    await requireContent(contentOfBucket(place.content, bucket), rows, adopt);
    const { isOwner = false, space, slabs, trustMs, onDamaged } = options;
    const local = await openContentDirectory(localContent(place), {
      ...(space ? { space } : {}),
      ...(slabs ? { slabs } : {}),
    });
    return await openContentObjects(bucket, {
      ...{ local, uses, hasLinks: redirect },
      ...(isOwner ? { cacheBytes } : {}),
      ...(trustMs === undefined ? {} : { trustMs }),
      ...(onDamaged ? { onDamaged } : {}),
    });
  } catch (error) {
    bucket.close();
    throw error;
  }
}

function contentOfBucket(name: string, bucket: Bucket): ContentPlace {
  return {
    name,
    remedy: 'correct SLUICE_CONTENT, or restore the objects',
    isOwn: false,
    async hasContent() {
      for await (const _ of bucket.list('blobs/')) return true;
      return false;
    },
    readId: async () => (await bucket.read('id'))?.toString('utf8').trim(),
    async writeId(id) {
      if (!(await bucket.head('id'))) await bucket.put('id', Buffer.from(id));
    },
  };
}
