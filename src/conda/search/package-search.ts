import { hash } from 'node:crypto';
import { boundedCache, cacheOfBytes } from '../../foundation/bounded-cache.ts';
import { Fault } from '../../foundation/fault.ts';
import { pauseTurn } from '../../foundation/pause-turn.ts';
import { Semaphore } from '../../foundation/semaphore.ts';
import { SingleFlight } from '../../foundation/single-flight.ts';
import { compareTexts } from '../../foundation/text.ts';
import { unlessAborted } from '../../foundation/work.ts';
import { namedArchitectures } from '../../oci/naming.ts';
import type { ChannelAccess } from '../channels/channel-access.ts';
import type { OpenedRepodata, RepodataStore } from '../repodata/repodata-store.ts';
import type { ShardStore } from '../repodata/shard-store.ts';
import { runTask } from '../threads/one-task.ts';
import type { ChannelSummaries, PackageSummary } from './channel-summaries.ts';
import { type FoundVersion, mostVersions } from './package-versions.ts';
import type { SearchOrder, VersionsResponse } from './search-worker.ts';

interface PackageSearchDeps {
  readonly channels: ChannelAccess;
  readonly repodata: RepodataStore;
  readonly shards: ShardStore;
  readonly summaries: ChannelSummaries;
}

/** A package that a search found. */
interface FoundPackage {
  readonly name: string;
  /** Channels that have it, in the given order. */
  readonly channels: readonly string[];
  /** Subdirectories that have it, such as `linux-64`. */
  readonly subdirs: readonly string[];
  /** What the first of its channels says about it; undefined where that is not known. */
  readonly about: PackageSummary | undefined;
}

export interface SearchResult {
  /** The best matches. */
  readonly packages: readonly FoundPackage[];
  /** Number of all matches, counted up to 1,000. */
  readonly total: number;
  /** The most similar name, where none contains the text. */
  readonly meant: string | undefined;
  /** True while a channel sends descriptions: a later search has more of them. */
  readonly isDescribing: boolean;
  readonly failures: SearchFailures;
}

/** Channels that could not be searched. */
export interface SearchFailures {
  /** Why, in a sentence for each. */
  readonly problems: readonly string[];
  /** Channels whose data is still being fetched: a later search finds more. */
  readonly late: readonly string[];
}

/** A version of a package, and where it is. */
interface PackageVersion extends FoundVersion {
  readonly channel: string;
  readonly subdirs: readonly string[];
}

export interface VersionsResult {
  /** Newest first. */
  readonly versions: readonly PackageVersion[];
  /** True if there are older ones. */
  readonly hasMore: boolean;
  /** What the first of the channels says about the package; undefined where that is not known. */
  readonly about: PackageSummary | undefined;
  readonly failures: SearchFailures;
}

/** Finds packages in channels. Failures of single channels are a part of the result. */
export interface PackageSearch {
  search(text: string, channels: readonly string[], signal: AbortSignal): Promise<SearchResult>;
  versions(name: string, channels: readonly string[], signal: AbortSignal): Promise<VersionsResult>;
  /** Begins to fetch the data of channels, so that it is here when somebody has written a name. */
  prepare(channels: readonly string[]): void;
}

/** A subdirectory with its names. */
interface ListedSubdir {
  readonly channel: string;
  readonly subdir: string;
  readonly names: NameList;
}

const searchedSubdirs = [...namedArchitectures.map(([, { subdir }]) => subdir), 'noarch'];
const mostMatches = 20;
const mostChannels = 10;
const namesBytes = 48 * 1024 * 1024;
const knownVersions = 500;
/** How long a failure is the response for a channel: people type faster than a channel that is down answers. */
const failureMs = 15_000;
/** How long a search waits for data that is being fetched. */
const waitMs = 1000;
const prepareMs = 60_000;
/** Each short text is similar to some name. */
const shortestMistyped = 4;

export function createPackageSearch({
  channels,
  repodata,
  shards,
  summaries,
}: PackageSearchDeps): PackageSearch {
  const names = cacheOfBytes<string, NameList>(namesBytes, list => list.length);
  const reading = new SingleFlight<NameList>();
  const versionsKnown = boundedCache<string, readonly FoundVersion[]>(knownVersions);
  const orders = boundedCache<string, ReadonlyMap<string, number>>(knownVersions);
  const failed = boundedCache<string, string>(1000, { ttl: failureMs });
  const queue = new Semaphore({ limit: 1, mostWaiting: 50, refusal: tooManySearches });
  const run = <R>(order: SearchOrder, signal?: AbortSignal) =>
    queue.run(
      () => runTask<SearchOrder, R>(new URL('./search-worker.ts', import.meta.url), order),
      signal ? { signal } : {},
    );

  /** Returns the names in kept data. A file never changes, so its list is kept by its path. */
  const namesIn = async ({ path, url }: OpenedRepodata): Promise<NameList> => {
    const known = names.get(path);
    if (known !== undefined) return known;
    const read = async () => {
      const list = await run<NameList>({ kind: 'names', path, url });
      names.set(path, list);
      return list;
    };
    return reading.run(read, { key: path });
  };

  /** Opens the subdirectories of a channel. Throws a `Fault` for a channel that has none. */
  const opened = async <T>(
    channel: string,
    signal: AbortSignal,
    use: (one: OpenedRepodata, subdir: string) => Promise<T>,
  ): Promise<readonly T[]> => {
    const base = channels.baseUrl(channel);
    const known = failed.get(base);
    if (known !== undefined) throw new Fault('upstream-unusable', known, { phase: 'upstream' });
    try {
      const found = await Promise.all(
        searchedSubdirs.map(async subdir => {
          using one = await repodata.open(base, subdir, { signal, log: () => {} });
          return one && [await use(one, subdir)];
        }),
      );
      if (found.some(one => one !== undefined)) return found.flatMap(one => one ?? []);
      throw nothingThere(channel);
    } catch (error) {
      const isOfChannel = error instanceof Fault && error.phase !== 'limit' && !signal.aborted;
      if (isOfChannel) failed.set(base, error.message);
      throw error;
    }
  };

  /** Runs a search in each channel. A channel that fails or is late leaves a sentence. */
  const inEach = async <T>(
    written: readonly string[],
    gone: AbortSignal,
    work: (channel: string, signal: AbortSignal) => Promise<readonly T[]>,
    patienceMs = waitMs,
  ): Promise<{ readonly found: readonly T[]; readonly failures: SearchFailures }> => {
    const signal = AbortSignal.any([gone, AbortSignal.timeout(patienceMs)]);
    const wanted = written.flatMap(one => channels.channelsOf(one).map(({ name }) => name));
    const problems: string[] = [];
    const late: string[] = [];
    if (wanted.length > mostChannels) {
      problems.push(`Only the first ${mostChannels} channels are searched`);
    }
    const found = await Promise.all(
      [...new Set(wanted)].slice(0, mostChannels).map(async channel => {
        try {
          return await unlessAborted(work(channel, signal), signal);
        } catch (error) {
          gone.throwIfAborted();
          if (signal.aborted) late.push(channel);
          else problems.push(problemText(channel, error));
          return [];
        }
      }),
    );
    return { found: found.flat(), failures: { problems, late } };
  };

  const listed = (written: readonly string[], gone: AbortSignal, patienceMs?: number) =>
    inEach(
      written,
      gone,
      (channel, signal) =>
        opened(channel, signal, async (one, subdir): Promise<ListedSubdir> => {
          return { channel, subdir, names: await namesIn(one) };
        }),
      patienceMs,
    );

  const versionsOf = async (
    one: OpenedRepodata,
    name: string,
    signal: AbortSignal,
  ): Promise<readonly FoundVersion[]> => {
    const key = `${one.path} ${name}`;
    const known = versionsKnown.get(key);
    if (known) return known;
    if (!hasName(await namesIn(one), name)) return [];
    const { path, url, shards: base } = one;
    let response = await run<VersionsResponse>({ kind: 'versions', path, url, name });
    if (response.elsewhere !== undefined && base !== undefined) {
      const shard = await shards.read(base, response.elsewhere, signal);
      response = await run<VersionsResponse>({ kind: 'records', shard });
    }
    const { versions = [] } = response;
    versionsKnown.set(key, versions);
    return versions;
  };

  /** Returns the place of each version of all lists, the newest first. Each list is in that order already. */
  const placesOf = async (
    lists: readonly (readonly FoundVersion[])[],
  ): Promise<ReadonlyMap<string, number>> => {
    const filled = lists.filter(list => list.length > 0);
    const versions = [...new Set(filled.flat().map(({ version }) => version))];
    const key = hash('sha256', versions.join(' '));
    const known = orders.get(key);
    if (known) return known;
    const ordered =
      filled.length < 2 ? versions : await run<readonly string[]>({ kind: 'order', versions });
    const places = new Map(ordered.map((version, place) => [version, place]));
    orders.set(key, places);
    return places;
  };

  /** Returns the name that somebody may have mistyped. A search is complete without it. */
  const nearest = async (
    name: string,
    lists: readonly NameList[],
    signal: AbortSignal,
  ): Promise<string | undefined> => {
    if (name.length < shortestMistyped || lists.length === 0) return undefined;
    return run<string | undefined>({ kind: 'nearest', name, lists }, signal).catch(() => undefined);
  };

  const aboutOf = (name: string, having: readonly string[]): PackageSummary | undefined => {
    const all = having.map(channel => summaries.of(channels.baseUrl(channel), name));
    return all.find(one => one !== undefined);
  };

  return {
    async search(text, written, signal) {
      const { found, failures } = await listed(written, signal);
      const lists = found.map(one => one.names);
      const { names: best, total } = await matchingNames(lists, text.trim(), mostMatches);
      const meant = total === 0 ? await nearest(text.trim(), lists, signal) : undefined;
      const packages: FoundPackage[] = [];
      for (const name of best) {
        // Its description is looked for in texts of some MiB.
        await pauseTurn();
        const having = found.filter(one => hasName(one.names, name));
        const inChannels = [...new Set(having.map(({ channel }) => channel))];
        packages.push({
          name,
          channels: inChannels,
          about: aboutOf(name, inChannels),
          subdirs: [...new Set(having.map(({ subdir }) => subdir))],
        });
      }
      const isDescribing = packages.some(one =>
        one.channels.some(channel => summaries.isFetching(channels.baseUrl(channel))),
      );
      return { packages, total, meant, isDescribing, failures };
    },
    prepare(written) {
      listed(written, new AbortController().signal, prepareMs).then(
        ({ found }) => {
          for (const { channel } of found) summaries.prepare(channels.baseUrl(channel));
        },
        // A search reports the failure.
        () => {},
      );
    },
    async versions(name, written, gone) {
      const { found, failures } = await inEach(written, gone, (channel, signal) =>
        opened(channel, signal, async (one, subdir) => {
          const versions = await versionsOf(one, name, signal);
          return { channel, subdir, versions };
        }),
      );
      const merged = new Map<string, PackageVersion>();
      for (const { channel, subdir, versions } of found) {
        for (const one of versions) {
          const key = `${channel} ${one.version}`;
          const known = merged.get(key);
          const subdirs = [...(known?.subdirs ?? []), subdir];
          merged.set(key, { ...(known ?? { ...one, channel }), subdirs });
        }
      }
      const places = await placesOf(found.map(({ versions }) => versions));
      const versions = [...merged.values()].sort(
        (one, other) => (places.get(one.version) ?? 0) - (places.get(other.version) ?? 0),
      );
      const having = [...new Set(versions.map(({ channel }) => channel))];
      return {
        versions: versions.slice(0, mostVersions),
        hasMore: versions.length > mostVersions,
        about: aboutOf(name, having),
        failures,
      };
    },
  };
}

function problemText(channel: string, error: unknown): string {
  if (error instanceof Fault) return error.message;
  return `The packages of the channel ${channel} cannot be listed: its repository data is damaged`;
}

function nothingThere(channel: string): Fault {
  return new Fault(
    'bad-request',
    `The channel ${channel} has no packages for Linux: check its name or address`,
    { phase: 'upstream' },
  );
}

function tooManySearches(): Fault {
  return new Fault('unavailable', 'Too many people search for packages: try again in a moment', {
    phase: 'limit',
    limit: 'package searches at once',
    retryAfterSeconds: 5,
  });
}

/** Names of packages in one text: each between two newlines. */
type NameList = string;

const hitsPerTurn = 1000;

/** Names that match, best first. */
interface NameMatches {
  readonly names: readonly string[];
  /** Number of all names that match, at most {@link mostCounted}. */
  readonly total: number;
}

/** A search counts no further: nobody looks through more matches. */
export const mostCounted = 1000;

/**
 * Returns the names that contain a text: the name itself first, then names that begin with it, then others; of equals the
 * shorter one. Yields to the event loop in between.
 */
export async function matchingNames(
  lists: Iterable<NameList>,
  text: string,
  most: number,
): Promise<NameMatches> {
  const wanted = text.toLowerCase();
  const groups: readonly string[][] = [[], [], []];
  const counted = new Set<string>();
  let hits = 0;
  for (const list of lists) {
    for (let at = list.indexOf(wanted); at >= 0; ) {
      const start = list.lastIndexOf('\n', at) + 1;
      const end = list.indexOf('\n', at);
      const name = list.slice(start, end);
      const rank = name === wanted ? 0 : start === at ? 1 : 2;
      keepBest(groups[rank] ?? [], name, most);
      if (counted.size < mostCounted) counted.add(name);
      at = list.indexOf(wanted, end);
      hits += 1;
      if (hits % hitsPerTurn === 0) await pauseTurn();
    }
  }
  return { names: groups.flat().slice(0, most), total: counted.size };
}

/** Returns true if a list has exactly this name. */
export function hasName(list: NameList, name: string): boolean {
  return list.includes(`\n${name}\n`);
}

/** Puts a name in its place among the best ones, and drops the last one if there are too many. */
function keepBest(best: string[], name: string, most: number): void {
  const last = best.at(-1);
  if (best.length >= most && last !== undefined && byLength(name, last) >= 0) return;
  const place = best.findIndex(other => byLength(name, other) <= 0);
  if (place >= 0 && best[place] === name) return;
  best.splice(place < 0 ? best.length : place, 0, name);
  if (best.length > most) best.pop();
}

function byLength(one: string, other: string): number {
  return one.length - other.length || compareTexts(one, other);
}
