import { boundedCache } from '../../../foundation/bounded-cache.ts';
import { Fault } from '../../../foundation/fault.ts';
import type { Digest } from '../../../oci/digest.ts';
import { type RowDatabase, together } from '../row-database.ts';

/** Limits for the content of callers without an access token; undefined for no limit. */
interface AnonymousLimits {
  readonly maxRequests: number | undefined;
  readonly maxFiles: number | undefined;
  readonly maxBytes: number | undefined;
  /** Limit of one network: an IPv4 address, or a /64 of IPv6. */
  readonly maxNetworkRequests: number | undefined;
  readonly maxNetworkFiles: number | undefined;
  readonly maxNetworkBytes: number | undefined;
}

/**
 * The part of the disk that callers without an access token may fill. Known callers have no network here, and no
 * limits apply to them.
 */
export interface AnonymousShare {
  /** Throws a {@link Fault} (429, 507) when no further container request can be kept. */
  admitRequest(network: string | undefined): Promise<void>;
  /** Reserves room for content on its way in. Throws a {@link Fault} (429, 507) when none is left. */
  take(network: string | undefined, bytes?: number): Promise<Room>;
}

/** Room for one piece of content. */
interface Room extends Disposable {
  /** Throws a {@link Fault} (429, 507) when there is no space for the additional bytes. */
  grow(bytes: number): Promise<void>;
  /** Notes that the content is here now, and was not before. */
  keep(digest: Digest): Promise<void>;
  /** Returns the room, except for content that was kept. */
  [Symbol.dispose](): void;
}

const unlimited: Room = { async grow() {}, async keep() {}, [Symbol.dispose]() {} };
// Requests expire, and their content is removed after them.
const retryAfterSeconds = 3600;

// Maximum age of a count of requests. Requests admitted since then are added to it.
const countLifeMs = 50;

type What = keyof AnonymousUse;
const limitNames: Readonly<Record<What, { setting: string; words: string }>> = {
  requests: { setting: 'Requests', words: 'container requests' },
  files: { setting: 'Files', words: 'files' },
  bytes: { setting: 'Bytes', words: 'bytes' },
};

export function createAnonymousShare(
  store: AnonymousUseStore,
  limits: AnonymousLimits,
): AnonymousShare {
  /** Content that is being received, by network. */
  const incoming = new Map<string, { files: number; bytes: number }>();
  let incomingBytes = 0;
  let incomingFiles = 0;

  const mostOf: Readonly<Record<What, number | undefined>> = {
    requests: limits.maxNetworkRequests,
    files: limits.maxNetworkFiles,
    bytes: limits.maxNetworkBytes,
  };
  const mostOfAll: Readonly<Record<What, number | undefined>> = {
    requests: limits.maxRequests,
    files: limits.maxFiles,
    bytes: limits.maxBytes,
  };

  const add = (network: string, files: number, bytes: number): void => {
    const sum = incoming.get(network) ?? { files: 0, bytes: 0 };
    const next = { files: sum.files + files, bytes: sum.bytes + bytes };
    incomingFiles += files;
    incomingBytes += bytes;
    if (next.files === 0) incoming.delete(network);
    else incoming.set(network, next);
  };

  const requireWithin = async (network: string, checked: readonly What[]): Promise<void> => {
    const [own, all] = await store.ofBoth(network);
    const coming = incoming.get(network) ?? { files: 0, bytes: 0 };
    const ownUse = { ...own, files: own.files + coming.files, bytes: own.bytes + coming.bytes };
    const allUse = { ...all, files: all.files + incomingFiles, bytes: all.bytes + incomingBytes };
    for (const what of checked) {
      const { [what]: most = Number.POSITIVE_INFINITY } = mostOf;
      const { [what]: mostInAll = Number.POSITIVE_INFINITY } = mostOfAll;
      if (ownUse[what] > most) throw networkFull(what, network, most);
      if (allUse[what] > mostInAll) throw allFull(what, mostInAll);
    }
  };

  /** Reserves room before it looks at the rows, so that simultaneous callers count each other. */
  const reserve = async (network: string, files: number, bytes: number): Promise<void> => {
    add(network, files, bytes);
    try {
      await requireWithin(network, files > 0 ? ['files', 'bytes'] : ['bytes']);
    } catch (error) {
      add(network, -files, -bytes);
      throw error;
    }
  };

  // Avoids reading two rows for each of thousands of requests a second.
  const recent = boundedCache<string, Promise<{ requests: number }>>(1000, { ttl: countLifeMs });
  const requestsOf = (network: string | undefined): Promise<{ requests: number }> => {
    const key = network ?? allNetworks;
    const known = recent.get(key);
    if (known) return known;
    const read = store.of(network).then(({ requests }) => ({ requests }));
    recent.set(key, read);
    return read;
  };

  return {
    async admitRequest(network) {
      if (network === undefined) return;
      const [own, all] = await Promise.all([requestsOf(network), requestsOf(undefined)]);
      const { requests: most = Number.POSITIVE_INFINITY } = mostOf;
      const { requests: mostInAll = Number.POSITIVE_INFINITY } = mostOfAll;
      if (own.requests >= most) throw networkFull('requests', network, most);
      if (all.requests >= mostInAll) throw allFull('requests', mostInAll);
      own.requests += 1;
      all.requests += 1;
    },

    async take(network, first = 0) {
      if (network === undefined) return unlimited;
      await reserve(network, 1, first);
      let size = first;
      let isOpen = true;
      return {
        async grow(bytes) {
          await reserve(network, 0, bytes);
          size += bytes;
        },
        keep: digest => store.enter(digest, network, size),
        [Symbol.dispose]() {
          if (!isOpen) return;
          isOpen = false;
          add(network, -1, -size);
        },
      };
    },
  };
}

function networkFull(what: What, network: string, most: number): Fault {
  const { setting, words } = limitNames[what];
  return new Fault(
    'too-many-requests',
    `${network} already has ${most} ${words} here, which is the limit for requests without an access token: send a platform access token, wait until earlier requests expire, or ask the operator to raise anonymous.maxNetwork${setting}`,
    { phase: 'limit', limit: 'content of one network without a login', retryAfterSeconds },
  );
}

function allFull(what: What, most: number): Fault {
  const { setting, words } = limitNames[what];
  return new Fault(
    'storage-full',
    `The service keeps ${most} ${words} of requests without an access token, which is its limit: send a platform access token, try again later, or ask the operator to raise anonymous.max${setting}`,
    { phase: 'limit', limit: 'content of all callers without a login', retryAfterSeconds },
  );
}

/** Container requests and content kept for callers without an access token. */
interface AnonymousUse {
  readonly requests: number;
  /** Number of contents, each a file. */
  readonly files: number;
  /** Bytes of the content and of the requests. */
  readonly bytes: number;
}

/** Records which content callers without an access token have brought here, by their network. */
export interface AnonymousUseStore {
  /** Returns the use of one network, or of all. */
  of(network: string | undefined): Promise<AnonymousUse>;
  /** Returns the use of one network, and of all. */
  ofBoth(network: string): Promise<readonly [own: AnonymousUse, all: AnonymousUse]>;
  /** Enters content that was not here before. */
  enter(digest: Digest, network: string, size: number): Promise<void>;
  /** Subtracts content that was removed. */
  forget(digest: Digest): Promise<void>;
  /** Returns up to so many digests after one, in their order. */
  digestsAfter(digest: string, limit: number): Promise<Digest[]>;
}

const noUse: AnonymousUse = { requests: 0, files: 0, bytes: 0 };
/** The row that has the sums of all networks. */
export const allNetworks = '';

export function createAnonymousUseStore(database: RowDatabase): AnonymousUseStore {
  const of = database.sql<AnonymousUse>(
    'SELECT requests, files, bytes FROM anonymous_use WHERE network = ?',
  );
  const enter = database.sql(
    'INSERT INTO anonymous_content (digest, network, size) VALUES (?, ?, ?) ON CONFLICT DO NOTHING',
  );
  const forget = database.sql('DELETE FROM anonymous_content WHERE digest = ?');
  const digestsAfter = database
    .sql('SELECT digest FROM anonymous_content WHERE digest > ? ORDER BY digest LIMIT ?')
    .pluck<Digest>();
  return {
    of: async network => (await database.read(of.get(network ?? allNetworks))) ?? noUse,
    async ofBoth(network) {
      const [own, all] = await database.read(together([of.get(network), of.get(allNetworks)]));
      return [own ?? noUse, all ?? noUse];
    },
    enter: (digest, network, size) => database.commit(() => enter.run(digest, network, size)),
    forget: digest => database.commit(() => forget.run(digest)),
    digestsAfter: (digest, limit) => database.read(digestsAfter.all(digest, limit)),
  };
}
