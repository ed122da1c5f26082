import { createHash } from 'node:crypto';
import { access, mkdir, readdir, rm, stat, utimes } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { boundedCache } from '../../foundation/bounded-cache.ts';
import { Fault } from '../../foundation/fault.ts';
import { Semaphore } from '../../foundation/semaphore.ts';
import { SingleFlight } from '../../foundation/single-flight.ts';
import { unlessAborted } from '../../foundation/work.ts';
import { ChannelFault, isPassing } from '../channels/channel-fault.ts';
import { FetchTime, fetchRepodata, type RepodataFetchDeps } from './fetch-repodata.ts';
import { type RepodataEntry, readEntry, writeEntry } from './repodata-entry.ts';
import { RepodataDownload, type ReportRepodata, repodataName } from './repodata-progress.ts';

export interface RepodataStoreDeps extends RepodataFetchDeps {
  /** Its own directory. */
  readonly directory: string;
  /** How long data is used before the channel is asked whether it changed, ms. */
  readonly freshMs: number;
  /** Timeout for one subdirectory, ms. */
  readonly timeoutMs: number;
  readonly maxBytes: number;
  readonly log: { warn(details: object, message: string): void };
}

/** Kept repository data that is in use until it is disposed of. */
export interface OpenedRepodata extends Disposable {
  /** URL of the subdirectory. */
  readonly url: string;
  /** The file of shards, or of their index. */
  readonly path: string;
  /** Upstream URL of the shards that are not in the file, with a slash at the end. */
  readonly shards: string | undefined;
}

export interface RepodataStore {
  /**
   * Returns the repository data of a subdirectory as the channel has it now; undefined when the channel has none. Uses
   * kept data while the channel is down, and logs that. Callers share one fetch. Throws a `Fault`.
   */
  open(channel: string, subdir: string, options: OpenRepodata): Promise<OpenedRepodata | undefined>;
  /** Removes data that turned out to be damaged: it is fetched again when it is next opened. */
  discard(opened: OpenedRepodata): Promise<void>;
  close(): Promise<void>;
}

export interface OpenRepodata {
  readonly signal: AbortSignal;
  readonly log: (line: string) => void;
  readonly report?: ReportRepodata | undefined;
}

/** The result of a fetch, and notes for the logs of all callers that wait for it. */
interface Found {
  readonly entry: RepodataEntry | undefined;
  readonly notes: readonly string[];
  /** Until then the channel is not asked again, ms since 1970. */
  readonly until: number;
}

// A channel that is down is not asked again at once: each try may take as long as a timeout.
const downMs = 30_000;
const knownSubdirectories = 2000;
const fetchesAtOnce = 4;

export function createRepodataStore(deps: RepodataStoreDeps): RepodataStore {
  const { directory, freshMs, timeoutMs, maxBytes, log } = deps;
  const known = boundedCache<string, Found>(knownSubdirectories);
  const fetches = new SingleFlight<Found>();
  /** Of the fetches that run, by URL. */
  const downloads = new Map<string, RepodataDownload>();
  const inUse = new Map<string, number>();
  const outdated = new Set<string>();
  const queue = new Semaphore({ limit: fetchesAtOnce });
  const turns = new Semaphore({ limit: 1 });
  const closing = new AbortController();
  const ready = removeLeftovers(directory);
  ready.catch(() => {});

  const directoryOf = (url: string) =>
    join(directory, createHash('sha256').update(url).digest('hex').slice(0, 32));

  const refresh = async (
    channel: string,
    subdir: string,
    progress: RepodataDownload,
  ): Promise<Found> => {
    const url = `${channel}/${subdir}`;
    const own = directoryOf(url);
    const kept = known.get(url)?.entry ?? (await readEntry(own));
    if (kept && kept.checkedAt + freshMs > Date.now() && kept.checkedAt <= Date.now()) {
      return { entry: kept, notes: [], until: kept.checkedAt + freshMs };
    }
    const notes: string[] = [];
    using time = new FetchTime(timeoutMs);
    const signal = AbortSignal.any([closing.signal, time.signal]);
    const note = (line: string) => notes.push(line);
    const used = use(own);
    try {
      await mkdir(own, { recursive: true, mode: 0o700 });
      const entry = await fetchRepodata(deps, {
        channel,
        subdir,
        kept,
        signal,
        time,
        note,
        turns,
        progress,
        directory: own,
      });
      if (entry) await writeEntry(own, entry);
      else await rm(join(own, 'entry.json'), { force: true });
      if (kept && kept.pack !== entry?.pack) await removePack(join(own, kept.pack));
      for (const gone of await keepWithin(directory, maxBytes, path => inUse.has(path))) {
        for (const [url] of known.entries()) if (directoryOf(url) === gone) known.delete(url);
      }
      return { entry, notes, until: Date.now() + freshMs };
    } catch (error) {
      const failure = signal.aborted && !closing.signal.aborted ? late(url, timeoutMs) : error;
      const last = known.get(url);
      if (!isPassing(failure) || (kept === undefined && last === undefined)) throw failure;
      const age = kept ? ` of ${new Date(kept.checkedAt).toISOString()}` : '';
      const line = `${(failure as Error).message}. Its repository data${age} is used`;
      log.warn({ channel, subdir, err: failure }, 'a channel is down: its kept data is used');
      return { entry: kept, notes: [line], until: Date.now() + Math.min(downMs, freshMs) };
    } finally {
      used[Symbol.dispose]();
    }
  };

  /** Removes a file that is no longer current, when nobody uses it. */
  const removePack = async (path: string): Promise<void> => {
    if (inUse.has(path)) outdated.add(path);
    else await rm(path, { force: true });
  };

  const find = async (channel: string, subdir: string): Promise<Found> => {
    const url = `${channel}/${subdir}`;
    const last = known.get(url);
    if (last && last.until > Date.now()) return last;
    const fetch = async () => {
      const progress = new RepodataDownload(repodataName(channel, subdir));
      downloads.set(url, progress);
      try {
        return await queue.run(async () => {
          await ready;
          closing.signal.throwIfAborted();
          const found = await refresh(channel, subdir, progress);
          known.set(url, found);
          return found;
        });
      } finally {
        downloads.delete(url);
      }
    };
    return fetches.run(fetch, { key: url });
  };

  const isThere = ({ url, pack }: RepodataEntry): Promise<boolean> =>
    access(join(directoryOf(url), pack)).then(
      () => true,
      () => false,
    );

  const use = (path: string): Disposable => {
    inUse.set(path, (inUse.get(path) ?? 0) + 1);
    let isOver = false;
    return {
      [Symbol.dispose]() {
        if (isOver) return;
        isOver = true;
        const others = (inUse.get(path) ?? 1) - 1;
        if (others > 0) {
          inUse.set(path, others);
          return;
        }
        inUse.delete(path);
        // What cannot be removed now is removed at the next start.
        if (outdated.delete(path)) rm(path, { force: true }).catch(() => {});
      },
    };
  };

  return {
    async open(channel, subdir, { signal, log, report }) {
      const url = `${channel}/${subdir}`;
      const last = known.get(url)?.entry;
      // Kept data may be gone from the disk.
      if (last && !(await isThere(last))) known.delete(last.url);
      const found = find(channel, subdir);
      const watch = report && downloads.get(url)?.watch(report);
      const { entry, notes } = await unlessAborted(found, signal).finally(() =>
        watch?.[Symbol.dispose](),
      );
      for (const note of notes) log(note);
      if (entry === undefined) return undefined;
      const own = directoryOf(entry.url);
      const path = join(own, entry.pack);
      const used = use(path);
      // The time of the directory says when it was last used. Failing to note it only makes it go earlier.
      const now = new Date();
      await utimes(own, now, now).catch(() => {});
      return { url: entry.url, path, shards: entry.shards, [Symbol.dispose]: used[Symbol.dispose] };
    },
    async discard({ url, path }) {
      const own = directoryOf(url);
      if (known.get(url)?.entry?.pack === basename(path)) known.delete(url);
      const entry = await readEntry(own);
      if (entry?.pack === basename(path)) await rm(join(own, 'entry.json'), { force: true });
    },
    async close() {
      closing.abort(
        new Fault('unavailable', 'The server is stopping: try again in a moment', {
          phase: 'build',
        }),
      );
      await fetches.settled();
    },
  };
}

function late(url: string, ms: number): ChannelFault {
  return new ChannelFault(
    `The repository data ${url} did not arrive within ${Math.round(ms / 1000)} s: the operator can raise conda.repodata.timeout`,
    undefined,
  );
}

interface Kept {
  readonly directory: string;
  readonly bytes: number;
  readonly usedAt: number;
  readonly paths: readonly string[];
}

/** Makes the directory, and removes what a killed server left half made. */
async function removeLeftovers(directory: string): Promise<void> {
  await mkdir(directory, { recursive: true, mode: 0o700 });
  for (const name of await readdir(directory)) {
    const own = join(directory, name);
    const entry = await readEntry(own);
    if (entry === undefined) {
      await rm(own, { recursive: true, force: true });
      continue;
    }
    for (const file of await readdir(own)) {
      if (file !== 'entry.json' && file !== entry.pack) await rm(join(own, file), { force: true });
    }
  }
}

/**
 * Removes the least recently used repository data until the rest has at most `maxBytes`; never what is in use. Returns the
 * directories that it removed.
 *
 * @param isInUse asked for directories and for the files in them
 */
async function keepWithin(
  directory: string,
  maxBytes: number,
  isInUse: (path: string) => boolean,
): Promise<readonly string[]> {
  const removed: string[] = [];
  const kept = await Promise.all(
    (await readdir(directory)).map(name => measure(join(directory, name))),
  );
  let total = kept.reduce((sum, { bytes }) => sum + bytes, 0);
  for (const one of kept.toSorted((a, b) => a.usedAt - b.usedAt)) {
    if (total <= maxBytes) break;
    if ([one.directory, ...one.paths].some(isInUse)) continue;
    removed.push(one.directory);
    await rm(one.directory, { recursive: true, force: true });
    total -= one.bytes;
  }
  return removed;
}

async function measure(directory: string): Promise<Kept> {
  const paths = (await readdir(directory)).map(name => join(directory, name));
  const sizes = await Promise.all(
    paths.map(path =>
      stat(path).then(
        ({ size }) => size,
        () => 0,
      ),
    ),
  );
  const { mtimeMs } = await stat(directory);
  return { directory, paths, usedAt: mtimeMs, bytes: sizes.reduce((sum, size) => sum + size, 0) };
}
