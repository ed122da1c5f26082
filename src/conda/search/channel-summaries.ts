import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGunzip } from 'node:zlib';
import { cacheOfBytes } from '../../foundation/bounded-cache.ts';
import { pauseTurn } from '../../foundation/pause-turn.ts';
import { Semaphore } from '../../foundation/semaphore.ts';
import { SingleFlight } from '../../foundation/single-flight.ts';
import { copiesOf } from '../../storage/content/byte-source.ts';
import type { UpstreamResponse } from '../../upstream/index.ts';
import type { ChannelAccess } from '../channels/channel-access.ts';
import { JsonRecords, type RecordReceiver } from '../repodata/shards/json-records.ts';

/** What a channel says about one of its packages. */
export interface PackageSummary {
  /** One sentence. */
  readonly summary: string;
  /** The newest version; undefined if the channel does not say. */
  readonly version: string | undefined;
}

/** Descriptions of the packages of channels. Searches do not wait for them. */
export interface ChannelSummaries {
  /**
   * Returns what a channel says about a package, as far as this is known now. Begins to fetch the descriptions of a
   * channel when they are first wanted.
   */
  of(base: string, name: string): PackageSummary | undefined;
  /** Begins to fetch the descriptions of a channel, unless they are here. */
  prepare(base: string): void;
  /** Returns true while the descriptions of a channel are being fetched. */
  isFetching(base: string): boolean;
  close(): Promise<void>;
}

export interface ChannelSummariesDeps {
  readonly channels: Pick<ChannelAccess, 'open'>;
}

/** Summaries of one channel in one text: each line has a name, a version and a summary. */
type SummaryList = string;

const keptBytes = 24 * 1024 * 1024;
const mostOfChannel = 8 * 1024 * 1024;
const freshMs = 24 * 3_600_000;
const failureMs = 3_600_000;
const timeoutMs = 120_000;
const mostFetches = 20;
const longestSummary = 300;
// Anybody can name a channel in a search, and this thread reads its file. That of conda-forge has about 30 MiB, with
// 30,000 packages of a few KiB each at most.
const mostFileBytes = 256 * 1024 * 1024;
const mostRecordBytes = 128 * 1024;
const mostPackages = 100_000;
// Other names and versions cannot be requested. A channel can write anything into its data.
const plainName = /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}$/;
const plainVersion = /^[A-Za-z0-9_.!+]{1,100}$/;

/** Source: conda, `channeldata.json`, which conda-build and the hosts of channels write. */
export function createChannelSummaries({ channels }: ChannelSummariesDeps): ChannelSummaries {
  const known = cacheOfBytes<string, SummaryList>(keptBytes, list => 2 * list.length, {
    ttl: freshMs,
  });
  const fetching = new SingleFlight<void>();
  const queue = new Semaphore({ limit: 1 });
  const closing = new AbortController();

  const fetchSummaries = async (base: string): Promise<SummaryList> => {
    const signal = AbortSignal.any([closing.signal, AbortSignal.timeout(timeoutMs)]);
    const response = await channels.open(`${base}/channeldata.json`, {
      headers: { 'accept-encoding': 'gzip' },
      signal,
    });
    return readSummaries(response);
  };

  const begin = (base: string): void => {
    if (fetching.has(base) || fetching.size >= mostFetches || closing.signal.aborted) return;
    const fetch = async () => {
      try {
        known.set(base, await queue.run(() => fetchSummaries(base)));
      } catch {
        // A channel does not need descriptions: mirrors often leave them out.
        known.set(base, '', { ttl: failureMs });
      }
    };
    void fetching.run(fetch, { key: base });
  };

  return {
    of(base, name) {
      const list = known.get(base);
      if (list !== undefined) return summaryIn(list, name);
      begin(base);
      return undefined;
    },
    prepare(base) {
      if (!known.has(base)) begin(base);
    },
    isFetching: base => fetching.has(base),
    async close() {
      closing.abort();
      await fetching.settled();
    },
  };
}

/** Reads the file of a channel in pieces: the whole would need many times its size in memory. */
async function readSummaries({ body, headers }: UpstreamResponse): Promise<SummaryList> {
  const lines: string[] = [];
  let length = 0;
  let count = 0;
  const receiver: RecordReceiver = {
    info() {},
    record(_section, name, record) {
      count += 1;
      if (count > mostPackages) throw new RangeError('there are too many descriptions');
      const line = lineOf(name, record);
      if (line === undefined || length + line.length > mostOfChannel) return;
      lines.push(line);
      length += line.length + 1;
    },
  };
  const records = new JsonRecords(receiver, mostRecordBytes);
  let bytes = 0;
  const read = async (pieces: AsyncIterable<Buffer>) => {
    for await (const piece of pieces) {
      bytes += piece.length;
      if (bytes > mostFileBytes) throw new RangeError('the descriptions are too large');
      records.feed(piece);
      await pauseTurn();
    }
    records.end();
  };
  const source = Readable.from(copiesOf(body));
  if (headers.get('content-encoding') === 'gzip') await pipeline(source, createGunzip(), read);
  else await pipeline(source, read);
  return `\n${lines.join('\n')}\n`;
}

function lineOf(name: string, record: unknown): string | undefined {
  const { summary, version } = record as Readonly<Record<string, unknown>>;
  if (!plainName.test(name)) return undefined;
  const text = typeof summary === 'string' ? summary.slice(0, longestSummary) : '';
  const newest = typeof version === 'string' && plainVersion.test(version) ? version : '';
  const words = text.replaceAll(/\s+/g, ' ').trim();
  return words === '' && newest === '' ? undefined : `${name}\t${newest}\t${words}`;
}

function summaryIn(list: SummaryList, name: string): PackageSummary | undefined {
  const start = list.indexOf(`\n${name}\t`);
  if (start < 0) return undefined;
  const [, version, summary = ''] = list
    .slice(start + 1, list.indexOf('\n', start + 1))
    .split('\t');
  return { summary, version: version || undefined };
}
