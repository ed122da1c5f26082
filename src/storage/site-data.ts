import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { Fault } from '../foundation/fault.ts';
import {
  type ContentDirectoryOptions,
  type ContentStore,
  openContentDirectory,
} from './content/index.ts';
import { hasContent } from './directory/index.ts';
import {
  type Bucket,
  type ContentReader,
  createContentReader,
  openBucket,
  openContentObjects,
  type StoreProxyFor,
} from './objects/index.ts';
import type { ServerUse } from './rows/file/index.ts';
import { openPostgresRows, openRows, type Rows } from './rows/index.ts';
import {
  type ContentPlace,
  contentOfData,
  requireContent,
  requireDatabase,
  requireRestored,
} from './whole-data.ts';

/** Where the content of a site is. */
interface SiteContentPlace {
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
  /** The proxy on the way to the bucket. Default: none. */
  readonly proxyFor?: StoreProxyFor | undefined;
}

/** Options of a directory, which are those of a bucket as well. */
interface SiteContentOptions extends Omit<ContentDirectoryOptions, 'uses' | 'isReadOnly'> {
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
  const bucket = await openBucketOf(place);
  try {
    await requireContent(contentOfBucket(place.content, bucket), rows, adopt);
    const { isOwner = false, space, slabs, trustMs, onDamaged } = options;
    const local = await openContentDirectory(localContent(place), {
      ...(space ? { space } : {}),
      ...(slabs ? { slabs } : {}),
    });
    return await openContentObjects(bucket, {
      local,
      uses,
      hasLinks: place.s3.redirect,
      ...(isOwner ? { cacheBytes: place.s3.cacheBytes } : {}),
      ...(trustMs === undefined ? {} : { trustMs }),
      ...(onDamaged ? { onDamaged } : {}),
    });
  } catch (error) {
    bucket.close();
    throw error;
  }
}

/** Where a site's content is, or where it goes. */
export interface OpenedContent {
  readonly place: ContentPlace;
  readonly content: ContentStore;
}

/** Opens a place for a move of content, without rows: nothing there is claimed, and no copy stays on this machine. */
export async function openForMove(place: SiteContentPlace): Promise<OpenedContent> {
  if (isDirectory(place)) {
    return {
      place: contentOfData(place.data),
      content: await openContentDirectory(localContent(place)),
    };
  }
  const bucket = await openBucketOf(place);
  try {
    const local = await openContentDirectory(localContent(place));
    return {
      place: contentOfBucket(place.content, bucket),
      content: await openContentObjects(bucket, { local, cacheBytes: 0 }),
    };
  } catch (error) {
    bucket.close();
    throw error;
  }
}

/** Opens the bucket of a site to read its content. Throws a {@link Fault} when it cannot be reached. */
export async function openContentReader(
  place: SiteContentPlace,
  trustMs: number,
): Promise<ContentReader> {
  return createContentReader(await openBucketOf(place), { trustMs, hasLinks: place.s3.redirect });
}

/** Opens a folder of the bucket beside the content. */
export async function openNamedObjects(
  place: SiteContentPlace,
  folder: string,
): Promise<NamedObjects> {
  return namedObjects(await openBucketOf(place), folder);
}

function openBucketOf({ content: address, s3, proxyFor }: SiteContentPlace): Promise<Bucket> {
  const { endpoint, region, pathStyle, publicEndpoint } = s3;
  return openBucket({ address, endpoint, region, pathStyle, publicEndpoint, proxyFor });
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
    async retire() {
      const id = await bucket.read('id');
      if (id) await bucket.put('id.moved', id);
      await bucket.remove('id');
      return name;
    },
  };
}

/** Small files in a folder of a bucket, by their names. */
interface NamedObjects {
  put(name: string, bytes: Buffer): Promise<void>;
  /** Returns undefined for a name that is not there. */
  read(name: string): Promise<Buffer | undefined>;
  remove(name: string): Promise<void>;
  /** Yields all names in their order. */
  names(): AsyncIterable<string>;
  close(): void;
}

function namedObjects(bucket: Bucket, folder: string): NamedObjects {
  const keyOf = (name: string) => `${folder}/${name}`;
  return {
    put: (name, bytes) => bucket.put(keyOf(name), bytes),
    read: name => bucket.read(keyOf(name)),
    remove: name => bucket.remove(keyOf(name)),
    async *names() {
      for await (const { key } of bucket.list(`${folder}/`)) yield key.slice(folder.length + 1);
    },
    close: bucket.close,
  };
}

/** Where the rows of a site are. */
export interface RowsPlace {
  /** The data directory. */
  readonly data: string;
  /** `sqlite`, or the address of a PostgreSQL database. */
  readonly database: string;
}

/** True when rows are in a file of the data directory. */
export function isSqlite({ database }: Pick<RowsPlace, 'database'>): boolean {
  return database === 'sqlite';
}

/**
 * Opens the rows of a site. Throws a {@link Fault} when the database cannot be reached, or is not that of the data
 * directory.
 *
 * @param server for the server; absent for a command
 */
export async function openSiteRows(place: RowsPlace, server?: ServerUse): Promise<Rows> {
  const { data, database } = place;
  if (isSqlite(place)) {
    await requireDatabase(data);
    return openRows(join(data, 'sluice.db'), server);
  }
  requireRestored(data);
  if (existsSync(join(data, 'sluice.db'))) {
    throw new Fault(
      'internal',
      `The rows of ${data} are in its sluice.db: move them with 'sluice migrate --from sqlite:${data} --to postgres://...', or set SLUICE_DATABASE to sqlite`,
      { phase: 'store' },
    );
  }
  const { settleFirst, onLock, lock, readReplica } = server ?? {};
  const use = {
    isServer: server !== undefined,
    ...(settleFirst ? { settleFirst } : {}),
    ...(onLock ? { onLock } : {}),
    ...(lock ? { lock } : {}),
  };
  const rows = await openPostgresRows(database, use, readReplica);
  try {
    await requireOwnContent(data, rows);
    return rows;
  } catch (error) {
    await rows.end();
    throw error;
  }
}

async function requireOwnContent(data: string, { identity }: Rows): Promise<void> {
  if ((await identity.id()) !== undefined || !(await hasContent(join(data, 'content')))) return;
  throw new Fault(
    'internal',
    `The database is empty, but ${data}/content holds content, which an empty server would remove: name the database of this content with SLUICE_DATABASE, or move ${data}/content away to start empty`,
    { phase: 'store' },
  );
}
