import { randomUUID } from 'node:crypto';
import { open, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { Fault, isDiskFull } from '../../foundation/fault.ts';
import type { Semaphore } from '../../foundation/semaphore.ts';
import { isOutOfMemory, Thread } from '../../foundation/threads.ts';
import { drain } from '../../storage/content/byte-source.ts';
import type { DiskSpace } from '../../storage/directory/index.ts';
import type { UpstreamResponse } from '../../upstream/index.ts';
import type { ChannelAccess } from '../channels/channel-access.ts';
import { ChannelFault, isPassing, silenceFault } from '../channels/channel-fault.ts';
import { makeRoom } from '../threads/one-task.ts';
import { inRoom, threadNeeds } from '../threads/thread-room.ts';
import type { PrepareOrder, PrepareResponse } from './prepare-worker.ts';
import type { RepodataEntry } from './repodata-entry.ts';
import type { RepodataDownload } from './repodata-progress.ts';
import { RepodataError } from './shards/json-records.ts';

export interface RepodataFetchDeps {
  readonly channels: ChannelAccess;
  readonly space: DiskSpace;
  /** Maximum size of one file, uncompressed. */
  readonly maxFileBytes: number;
}

/** Data is prepared in turns: each takes a thread and about 80 MB. */
type PrepareTurns = Semaphore;

/** What is fetched, and where it goes. */
interface RepodataFetch {
  /** Base URL of the channel. */
  readonly channel: string;
  readonly subdir: string;
  readonly directory: string;
  readonly kept: RepodataEntry | undefined;
  readonly signal: AbortSignal;
  /** When it is over, the signal is aborted. */
  readonly time: FetchTime;
  readonly note: (line: string) => void;
  readonly turns: PrepareTurns;
  readonly progress: RepodataDownload;
}

// In the order of preference: the least bytes for one solve first. Source: CEP 16, and conda, Repodata format.
const repodataFiles = ['repodata_shards.msgpack.zst', 'repodata.json.zst', 'repodata.json'];

/** An interrupted download begins again. */
const downloadTries = 2;

/**
 * Returns the entry for what the channel has now, with its prepared file in the directory; undefined when the channel has
 * no such subdirectory. Throws a `Fault`.
 */
export async function fetchRepodata(
  deps: RepodataFetchDeps,
  wanted: RepodataFetch,
): Promise<RepodataEntry | undefined> {
  let refusal: ChannelFault | undefined;
  let wrong: ChannelFault | undefined;
  for (const file of repodataFiles) {
    try {
      return await fetchFile(deps, wanted, file);
    } catch (error) {
      if (error instanceof RepodataError) {
        const { channel, subdir, note } = wanted;
        wrong ??= new ChannelFault(
          `${channel}/${subdir}/${file} ${error.message}: check the address of the channel, or try later`,
          undefined,
          { cause: error },
        );
        note(wrong.message);
      } else if (error instanceof ChannelFault && !isPassing(error)) {
        refusal = error;
      } else {
        throw error;
      }
    }
  }
  if (wrong) throw wrong;
  if (refusal && refusal.responseStatus !== 404 && refusal.responseStatus !== 410) throw refusal;
  return undefined;
}

async function fetchFile(
  deps: RepodataFetchDeps,
  wanted: RepodataFetch,
  file: string,
): Promise<RepodataEntry> {
  const { channel, subdir, directory, kept, signal, time, turns } = wanted;
  const url = `${channel}/${subdir}`;
  const isKept = kept?.source === file;
  const headers = {
    ...(file.endsWith('.json') ? { 'accept-encoding': 'gzip' } : {}),
    ...(isKept && kept.etag ? { 'if-none-match': kept.etag } : {}),
    ...(isKept && kept.lastModified ? { 'if-modified-since': kept.lastModified } : {}),
  };
  const source = join(directory, `${randomUUID()}.download`);
  try {
    const response = await downloadTo(deps, wanted, source, `${url}/${file}`, headers);
    if (response.status === 304 && kept) return { ...kept, checkedAt: Date.now() };
    const pack = `${randomUUID()}.pack`;
    const order: PrepareOrder = {
      url,
      subdir,
      source,
      path: join(directory, pack),
      form: formOf(file, response),
      maxBytes: deps.maxFileBytes,
    };
    // Others may take minutes, such as a large package that is installed.
    time.pause();
    const shards = await turns.run(() => prepareIn(order, signal, () => time.run()));
    return {
      url,
      pack,
      source: file,
      shards,
      etag: response.headers.get('etag'),
      lastModified: response.headers.get('last-modified'),
      checkedAt: Date.now(),
    };
  } finally {
    await rm(source, { force: true });
  }
}

/** Downloads a file that changed. The response is 304 for one that did not. */
async function downloadTo(
  { channels, maxFileBytes, space }: RepodataFetchDeps,
  { channel, subdir, signal, progress }: RepodataFetch,
  path: string,
  url: string,
  headers: Readonly<Record<string, string>>,
): Promise<UpstreamResponse> {
  for (let tried = 1; ; tried += 1) {
    const response = await channels.open(url, { headers, signal });
    if (response.status === 304) {
      response.body.destroy();
      return response;
    }
    try {
      await writeBody(response, path, maxFileBytes, space, bytes =>
        progress.received(bytes, response.contentLength),
      );
      return response;
    } catch (error) {
      await rm(path, { force: true });
      if (error instanceof Fault || error instanceof RepodataError || signal.aborted) throw error;
      if (isDiskFull(error)) throw diskFull(error);
      if (tried >= downloadTries) {
        const file = `${subdir}/${url.slice(url.lastIndexOf('/') + 1)}`;
        throw silenceFault(channel, new URL(url).host, file, error);
      }
    }
  }
}

async function prepareIn(
  order: PrepareOrder,
  signal: AbortSignal,
  onBegin: () => void,
): Promise<string | undefined> {
  try {
    return await prepareRepodata(order, signal, onBegin);
  } catch (error) {
    await rm(order.path, { force: true });
    if (isDiskFull(error)) throw diskFull(error);
    throw error;
  } finally {
    await rm(`${order.path}.records`, { force: true });
  }
}

function formOf(file: string, { headers }: UpstreamResponse): PrepareOrder['form'] {
  if (file.endsWith('.msgpack.zst')) return 'shards';
  if (file.endsWith('.zst')) return 'zstd';
  return headers.get('content-encoding') === 'gzip' ? 'gzip' : 'plain';
}

function diskFull(cause: unknown): Fault {
  return new Fault(
    'storage-full',
    'The disk of the service is full, and the repository data of the channel cannot be kept: ask the operator to free disk space',
    { phase: 'store', cause },
  );
}

/**
 * Writes the body of a response into a new file. Throws a {@link RepodataError} when it has more than `limit` bytes.
 */
async function writeBody(
  { body, contentLength = 0 }: UpstreamResponse,
  path: string,
  limit: number,
  space: DiskSpace,
  onReceived: (bytes: number) => void,
): Promise<void> {
  try {
    const promise = space.promise(Math.min(contentLength, limit));
    const file = await open(path, 'wx', 0o600);
    try {
      let size = 0;
      await drain(body, async bytes => {
        size += bytes.length;
        if (size > limit) throw new RepodataError(`has more than ${limit} bytes`);
        promise.spend(bytes.length);
        await writeAll(file, bytes);
        onReceived(size);
      });
    } finally {
      promise.end();
      await file.close();
    }
  } finally {
    body.destroy();
  }
}

async function writeAll(
  file: { write(bytes: Uint8Array): Promise<{ bytesWritten: number }> },
  bytes: Uint8Array,
): Promise<void> {
  for (let done = 0; done < bytes.length; ) {
    const { bytesWritten } = await file.write(bytes.subarray(done));
    done += bytesWritten;
  }
}

/** The time that a fetch has. It does not run while the fetch waits for others. */
export class FetchTime implements Disposable {
  readonly #controller = new AbortController();
  #leftMs: number;
  #began: number | undefined;
  #timer: NodeJS.Timeout | undefined;

  /** @param ms when it is over, the signal is aborted */
  constructor(ms: number) {
    this.#leftMs = ms;
    this.run();
  }

  /** Aborted when the time is over. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Lets the time run on. */
  run(): void {
    if (this.#began !== undefined) return;
    this.#began = performance.now();
    this.#timer = setTimeout(() => this.#controller.abort(), Math.max(0, this.#leftMs)).unref();
  }

  /** Stops the time until {@link FetchTime.run}. */
  pause(): void {
    if (this.#began === undefined) return;
    clearTimeout(this.#timer);
    this.#leftMs -= performance.now() - this.#began;
    this.#began = undefined;
  }

  [Symbol.dispose](): void {
    this.pause();
  }
}

/**
 * Prepares downloaded repository data on its own thread. Returns the upstream URL of its shards; undefined when the
 * new file has them all. Throws a {@link RepodataError} when the data is not what it should be.
 *
 * @param onBegin called when there is room for the thread
 */
function prepareRepodata(
  order: PrepareOrder,
  signal: AbortSignal,
  onBegin: () => void,
): Promise<string | undefined> {
  return inRoom(threadNeeds.repodata, () => {
    onBegin();
    return prepareOn(order, signal);
  });
}

async function prepareOn(order: PrepareOrder, signal: AbortSignal): Promise<string | undefined> {
  await makeRoom();
  signal.throwIfAborted();
  // It holds the places of all records, and the records of one package.
  await using thread = new Thread<PrepareResponse>(
    new URL('./prepare-worker.ts', import.meta.url),
    { workerData: order, heapMb: 128, youngHeapMb: 8 },
  );
  try {
    const response = await thread.next(signal);
    if ('wrong' in response) throw new RepodataError(response.wrong);
    if ('failed' in response)
      throw Object.assign(new Error(response.failed), { code: response.code });
    return response.shards;
  } catch (error) {
    if (!isOutOfMemory(error)) throw error;
    throw new RepodataError(
      'has more packages than fit into the memory for repository data (128 MiB)',
      { cause: error },
    );
  }
}
