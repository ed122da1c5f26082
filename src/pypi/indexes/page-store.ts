import { open, readFile } from 'node:fs/promises';
import { boundedCache } from '../../foundation/bounded-cache.ts';
import { type Permit, Semaphore } from '../../foundation/semaphore.ts';
import { SingleFlight } from '../../foundation/single-flight.ts';
import { defaultIndex, type IndexAccess, IndexFault, readBody, subjectOf } from './index-access.ts';
import { PageProblem } from './index-page.ts';
import type { KeptFiles } from './kept-files.ts';
import type { PageThread } from './page-thread.ts';

/** Pages of indexes, as the solver reads them. They are kept, and used while their index is down. */
export interface PageStore {
  /**
   * Returns the page of a project; undefined if the index has none. Callers share one fetch. What it takes of the memory for pages is
   * free again when each caller has disposed of it. Throws a `Fault`.
   */
  page(index: string, project: string, signal: AbortSignal): Promise<KeptPage | undefined>;
}

export interface KeptPage extends Disposable {
  readonly page: Uint8Array;
  /** A sentence for the log about a page that could not be brought up to date; undefined for one that is. */
  readonly note: string | undefined;
}

export interface PageStoreDeps {
  readonly access: IndexAccess;
  readonly thread: PageThread;
  readonly kept: KeptFiles;
  /** Seals the addresses in pages. */
  readonly key: Uint8Array;
  /** How long a page is used before the index is asked whether it changed, ms. */
  readonly freshMs: number;
  /** How long an index may take for a page, ms. Default: a minute. */
  readonly timeoutMs?: number | undefined;
}

/** The first line of a file of the store. */
interface PageHead {
  readonly url: string;
  readonly etag: string | undefined;
  /** Of the page: a file with others was not written to its end. */
  readonly bytes: number;
  /** ms since 1970. */
  readonly checkedAt: number;
}

/** The form of the rewritten pages: those of another form are fetched again. */
const formVersion = 4;
const maxPageBytes = 32 * 1024 * 1024;
/**
 * Of the pages that are fetched and rewritten at the same time, and of those that callers use: a solver asks for those of all its
 * projects at once. A larger page is there alone.
 */
const bytesAtOnce = 12 * 1024 * 1024;
const usualTimeoutMs = 60_000;
/** How long a project that an index does not have is not asked for again: somebody may publish it. */
const missingMs = 60_000;
const mostMissing = 10_000;
const accepted =
  'application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1';

export function createPageStore(deps: PageStoreDeps): PageStore {
  const { access, thread, kept, freshMs, key, timeoutMs = usualTimeoutMs } = deps;
  const fetches = new SingleFlight<SharedPage | undefined>({ lingerMs: 5000 });
  const fetched = new Semaphore({ limit: bytesAtOnce });
  // Any user can name an index that sends as slowly as it likes: those of the operator do not wait for it.
  const fetchedOfOthers = new Semaphore({ limit: bytesAtOnce });
  // Only who holds nothing, or a page that was fetched, waits for it.
  const used = new Semaphore({ limit: bytesAtOnce });
  const missingFor = Math.min(missingMs, freshMs);
  const missing = boundedCache<string, true>(mostMissing);

  // With the settings, so that an index that they name now never answers with pages of the one that they named before.
  const pathOf = (url: string) =>
    kept.pathOf(JSON.stringify([formVersion, access.settingsOf(url) ?? null, url]));

  const keep = (head: PageHead, page: Uint8Array) =>
    kept.write(pathOf(head.url), [Buffer.from(`${JSON.stringify(head)}\n`), page]);

  /** Reads a kept page when there is room for it; undefined if it is no longer there. */
  const load = async (
    { url, bytes }: PageHead,
    note: string | undefined,
    signal: AbortSignal,
  ): Promise<SharedPage | undefined> => {
    const room = await used.take({ weight: bytes, signal });
    const page = await readKept(pathOf(url), { url, bytes });
    if (page !== undefined) return new SharedPage(page, note, room);
    room[Symbol.dispose]();
    return undefined;
  };

  const fetchPage = async (index: string, project: string, signal: AbortSignal) => {
    const url = `${index}/${project}/`;
    if (missing.has(url)) return undefined;
    const stored = await readHead(pathOf(url), url);
    const now = Date.now();
    const age = stored === undefined ? freshMs : now - stored.checkedAt;
    if (stored && age >= 0 && age < freshMs) {
      const found = await load(stored, undefined, signal);
      if (found !== undefined) return found;
    }
    const stop = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]);
    try {
      const etag = stored?.etag;
      const headers = { accept: accepted, ...(etag ? { 'if-none-match': etag } : {}) };
      // Links are relative to it.
      let place = url;
      const onPlace = (answered: string) => {
        place = answered;
      };
      let response = await access.open(url, { headers, signal: stop, onPlace });
      if (response.status === 304 && stored) {
        response.body.destroy();
        const found = await load(stored, undefined, signal);
        if (found !== undefined) {
          await keep({ ...stored, checkedAt: now }, found.page);
          return found;
        }
        response = await access.open(url, { headers: { accept: accepted }, signal: stop, onPlace });
      }
      const newTag = response.headers.get('etag');
      // Its length may be unknown.
      const weight = Math.min(response.contentLength ?? maxPageBytes, maxPageBytes);
      const isListed = index === defaultIndex || access.settingsOf(url) !== undefined;
      const room = isListed ? fetched : fetchedOfOthers;
      using _room = await room.take({ weight, signal: stop }).catch(error => {
        response.body.destroy();
        throw error;
      });
      const what = `the page of ${project}`;
      const whole = { maxBytes: maxPageBytes, what, url: place, signal: stop };
      const body = await readBody(response, whole);
      const contentType = response.headers.get('content-type') ?? '';
      const page = await thread.rewrite({ body, contentType, url: place, project, key });
      await keep({ url, etag: newTag, bytes: page.length, checkedAt: now }, page);
      return new SharedPage(page, undefined, await used.take({ weight: page.length, signal }));
    } catch (cause) {
      if (signal.aborted) throw cause;
      if (cause instanceof IndexFault && isMissing(cause.responseStatus, url)) {
        if (missingFor > 0) missing.set(url, true, { ttl: missingFor });
        return undefined;
      }
      const error = stop.aborted ? tooSlow(url, timeoutMs) : asFault(cause, url);
      if (stored === undefined || !isPassing(error)) throw error;
      const minutes = Math.round(age / 60_000);
      const note = `${error.message}. Its list of the files of ${project} of ${minutes} minutes ago is used`;
      const found = await load(stored, note, signal);
      if (found === undefined) throw error;
      return found;
    }
  };

  const fetchWhileWanted = async (index: string, project: string, signal: AbortSignal) => {
    const found = await fetchPage(index, project, signal);
    if (!signal.aborted) return found;
    found?.free();
    throw signal.reason;
  };

  return {
    async page(index, project, signal) {
      const found = await fetches.run(stop => fetchWhileWanted(index, project, stop), {
        key: `${index}/${project}`,
        signal,
      });
      return found?.use();
    },
  };
}

/** A page of several callers. The last one of them frees its room. */
class SharedPage {
  readonly page: Uint8Array;
  readonly #note: string | undefined;
  readonly #room: Permit;
  #users = 0;

  constructor(page: Uint8Array, note: string | undefined, room: Permit) {
    this.page = page;
    this.#note = note;
    this.#room = room;
  }

  use(): KeptPage {
    this.#users += 1;
    let isUsed = true;
    const leave = () => {
      if (!isUsed) return;
      isUsed = false;
      this.#users -= 1;
      if (this.#users === 0) this.free();
    };
    return { page: this.page, note: this.#note, [Symbol.dispose]: leave };
  }

  free(): void {
    this.#room[Symbol.dispose]();
  }
}

/** That of PyTorch answers 403 for a project that it does not have. Source: uv, `IndexStatusCodeStrategy`. */
function isMissing(status: number | undefined, url: string): boolean {
  const forbids = status === 403 && new URL(url).hostname === 'download.pytorch.org';
  return status === 404 || forbids;
}

function tooSlow(url: string, timeoutMs: number): IndexFault {
  return new IndexFault(
    `${subjectOf(url)} did not answer within ${timeoutMs / 1000} s: try later`,
    undefined,
  );
}

function asFault(error: unknown, url: string): Error {
  return error instanceof PageProblem
    ? new IndexFault(`${subjectOf(url)} ${error.message}`, undefined)
    : (error as Error);
}

function isPassing(error: Error): boolean {
  if (!(error instanceof IndexFault)) return false;
  const { responseStatus } = error;
  return responseStatus === undefined || responseStatus === 429 || responseStatus >= 500;
}

const longestHead = 16 * 1024;

/** Returns the first line of a kept page; undefined if there is no whole page of that address. */
async function readHead(path: string, url: string): Promise<PageHead | undefined> {
  try {
    await using file = await open(path);
    const { buffer, bytesRead } = await file.read(Buffer.alloc(longestHead), 0, longestHead, 0);
    const end = buffer.subarray(0, bytesRead).indexOf(10);
    const head = JSON.parse(buffer.subarray(0, end).toString()) as PageHead;
    const { size } = await file.stat();
    return head.url === url && head.bytes === size - end - 1 ? head : undefined;
  } catch {
    return undefined;
  }
}

async function readKept(
  path: string,
  expected: Pick<PageHead, 'url' | 'bytes'>,
): Promise<Uint8Array | undefined> {
  try {
    const bytes = await readFile(path);
    const end = bytes.indexOf(10);
    const head = JSON.parse(bytes.subarray(0, end).toString()) as PageHead;
    const page = bytes.subarray(end + 1);
    const isSame = head.url === expected.url && head.bytes === expected.bytes;
    return isSame && head.bytes === page.length ? page : undefined;
  } catch {
    return undefined;
  }
}
