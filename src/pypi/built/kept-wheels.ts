import type { FetchArchive } from '../../conda/index.ts';
import { Fault } from '../../foundation/fault.ts';
import type { Digest } from '../../oci/digest.ts';
import type { ContentStore, Ingest } from '../../storage/content/index.ts';
import type { CachedBlobStore, PackageLayerStore } from '../../storage/rows/index.ts';
import type { BuiltWheel } from '../wheel-file.ts';

/** Wheels that were built of source distributions. They are content, and are kept as long as layers of packages. */
export interface KeptWheels {
  /** Returns the wheel that was built for a key, and counts it as used; undefined where none is here. */
  find(key: string): Promise<BuiltWheel | undefined>;
  /** Keeps a wheel whose bytes are written, and removes them when that fails. Resolves when it would survive a power failure. */
  keep(
    key: string,
    wheel: Omit<BuiltWheel, 'url' | 'sha256' | 'size'>,
    bytes: Ingest,
  ): Promise<BuiltWheel>;
  /** Keeps a wheel that is here for another key also. */
  alias(key: string, wheel: BuiltWheel): Promise<BuiltWheel>;
  /** Returns what the last build of a source has shown; undefined where none is known. */
  notesOf(key: string): Promise<BuildNotes | undefined>;
  /** Notes what a build has shown, as long as its wheel is kept. */
  note(key: string, notes: BuildNotes, of: BuiltWheel): Promise<void>;
  /** Opens a wheel that was built, and fetches every other one. */
  fetching(fetch: FetchArchive): FetchArchive;
}

/** What a build of a source has shown. */
export interface BuildNotes {
  /** Lines for pip: what it requires to be built. */
  readonly requirements: readonly string[];
  /** For a commit: the tags that its repository had. */
  readonly history?: HistoryNote | undefined;
}

/** Which tags a build has seen. */
export interface HistoryNote {
  /** Changes with all tags of the repository. */
  readonly listed: string;
  /** Changes with those that lead to the commit or to one before it; empty for a build without them. */
  readonly label: string;
}

export interface KeptWheelsDeps {
  readonly content: Pick<ContentStore, 'claim' | 'lease' | 'size'>;
  readonly cachedBlobs: Pick<CachedBlobStore, 'adopt'>;
  readonly rows: Pick<PackageLayerStore, 'find' | 'enter'>;
}

/** Addresses of wheels that were built. No request, page or lock file can name one: all of these are read as http(s). */
const scheme = 'sluice-built:';

export function createKeptWheels({ content, cachedBlobs, rows }: KeptWheelsDeps): KeptWheels {
  const claim = async (digest: Digest): Promise<boolean> => {
    // The cache of upstream blobs may have the same content, and would remove it.
    await cachedBlobs.adopt(digest);
    return content.claim(digest);
  };

  const enter = (key: string, digest: Digest, size: number, facts: unknown) =>
    rows.enter({
      key,
      digest,
      size,
      // A wheel is not compressed as a whole.
      tarDigest: digest,
      facts: JSON.stringify(facts),
      pathHashes: null,
      paths: null,
      at: Date.now(),
    });

  const find: KeptWheels['find'] = async key => {
    const row = await rows.find(key, Date.now());
    if (!row?.facts || !(await claim(row.digest))) return undefined;
    const { wheel } = JSON.parse(row.facts) as { wheel?: BuiltWheel };
    return wheel;
  };

  return {
    find,

    async keep(key, facts, bytes) {
      try {
        const { size } = bytes;
        await cachedBlobs.adopt(bytes.digest());
        const digest = await bytes.commit();
        if (!(await content.claim(digest))) throw goneMeanwhile();
        const sha256 = digest.slice('sha256:'.length);
        const wheel = { ...facts, url: `${scheme}${key}`, sha256, size };
        await enter(key, digest, size, { wheel });
        return wheel;
      } catch (error) {
        await bytes.abort();
        throw error;
      }
    },

    async alias(key, wheel) {
      const same = { ...wheel, url: `${scheme}${key}` };
      const { sha256, size = 0 } = wheel;
      await enter(key, `sha256:${sha256}` as Digest, size, { wheel: same });
      return same;
    },

    async notesOf(key) {
      const row = await rows.find(key, Date.now());
      if (!row?.facts) return undefined;
      const { requirements, history } = JSON.parse(row.facts) as Partial<BuildNotes>;
      return requirements && { requirements, history };
    },

    note: (key, { requirements, history }, { sha256, size = 0 }) =>
      enter(key, `sha256:${sha256}` as Digest, size, { requirements, history }),

    fetching: fetch => async (wanted, signal, onReceived) => {
      const { url, sha256 } = wanted;
      if (!url.startsWith(scheme)) return fetch(wanted, signal, onReceived);
      const known = await find(url.slice(scheme.length));
      if (known === undefined || sha256 === undefined) throw goneMeanwhile();
      // Another build of the same may have replaced the row since: few compilers give the same bytes twice.
      const digest = `sha256:${sha256}` as Digest;
      if (!(await claim(digest))) throw goneMeanwhile();
      const file = await content.lease(digest);
      if (!file) throw goneMeanwhile();
      return {
        path: file.path,
        size: (await content.size(digest)) ?? 0,
        sha256,
        [Symbol.asyncDispose]: () => file[Symbol.asyncDispose](),
      };
    },
  };
}

function goneMeanwhile(): Fault {
  return new Fault('unavailable', 'A wheel that was built is damaged or gone: try again', {
    phase: 'layer',
    retryAfterSeconds: 1,
  });
}
