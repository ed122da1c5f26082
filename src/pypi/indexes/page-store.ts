import { createHash } from 'node:crypto';
import { mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { SingleFlight } from '../../foundation/single-flight.ts';
import type { DiskSpace } from '../../storage/directory/index.ts';
import { readAll } from '../../upstream/index.ts';
import { type IndexAccess, IndexFault } from './index-access.ts';
import { PageProblem } from './index-page.ts';
import type { PageThread } from './page-thread.ts';

/** Pages of indexes, as the solver reads them. They are kept, and used while their index is down. */
export interface PageStore {
  /** Returns the page of a project; undefined if the index has none. Callers share one fetch. Throws a `Fault`. */
  page(index: string, project: string, signal: AbortSignal): Promise<KeptPage | undefined>;
}

export interface KeptPage {
  readonly page: Uint8Array;
  /** A sentence for the log about a page that could not be brought up to date; undefined for one that is. */
  readonly note: string | undefined;
}

export interface PageStoreDeps {
  readonly access: IndexAccess;
  readonly thread: PageThread;
  /** Its own directory. */
  readonly directory: string;
  readonly space: Pick<DiskSpace, 'take'>;
  /** How long a page is used before the index is asked whether it changed, ms. */
  readonly freshMs: number;
  readonly maxBytes: number;
}

/** The first line of a file of the store. */
interface PageHead {
  readonly url: string;
  readonly etag: string | undefined;
  /** ms since 1970. */
  readonly checkedAt: number;
}

/** The form of the rewritten pages: those of another form are fetched again. */
const formVersion = 1;
const maxPageBytes = 32 * 1024 * 1024;
const timeoutMs = 60_000;
const accepted =
  'application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1';

export function createPageStore(deps: PageStoreDeps): PageStore {
  const { access, thread, directory, freshMs } = deps;
  const fetches = new SingleFlight<KeptPage | undefined>({ lingerMs: 5000 });
  let written = 0;

  const pathOf = (url: string) =>
    join(directory, createHash('sha256').update(`${formVersion} ${url}`).digest('hex'));

  const keep = async (head: PageHead, page: Uint8Array) => {
    const path = pathOf(head.url);
    try {
      deps.space.take(page.length);
      await mkdir(directory, { recursive: true });
      await writeFile(
        `${path}.new`,
        Buffer.concat([Buffer.from(`${JSON.stringify(head)}\n`), page]),
      );
      await rename(`${path}.new`, path);
      if (written % 100 === 0) await removeOldest(directory, deps.maxBytes);
      written += 1;
    } catch {
      // A page that is not kept is fetched again.
      await rm(`${path}.new`, { force: true }).catch(() => {});
    }
  };

  const fetchPage = async (index: string, project: string, signal: AbortSignal) => {
    const url = `${index}/${project}/`;
    const kept = await readKept(pathOf(url), url);
    const now = Date.now();
    const age = kept === undefined ? freshMs : now - kept.head.checkedAt;
    if (kept && age >= 0 && age < freshMs) return { page: kept.page, note: undefined };
    const stop = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]);
    try {
      const etag = kept?.head.etag;
      const headers = { accept: accepted, ...(etag ? { 'if-none-match': etag } : {}) };
      // Links are relative to it.
      let place = url;
      const onPlace = (answered: string) => {
        place = answered;
      };
      const response = await access.open(url, { headers, signal: stop, onPlace });
      const newTag = response.headers.get('etag');
      if (response.status === 304 && kept) {
        response.body.destroy();
        await keep({ ...kept.head, checkedAt: now }, kept.page);
        return { page: kept.page, note: undefined };
      }
      const body = await readAll(response.body, maxPageBytes, `The page of ${project}`);
      const contentType = response.headers.get('content-type') ?? '';
      const page = await thread.rewrite({ body, contentType, url: place, project });
      await keep({ url, etag: newTag, checkedAt: now }, page);
      return { page, note: undefined };
    } catch (cause) {
      if (signal.aborted) throw cause;
      if (cause instanceof IndexFault && cause.responseStatus === 404) return undefined;
      const error = asFault(cause, url);
      if (kept === undefined || !isPassing(error)) throw error;
      const minutes = Math.round(age / 60_000);
      const note = `${error.message}. Its list of the files of ${project} of ${minutes} minutes ago is used`;
      return { page: kept.page, note };
    }
  };

  return {
    page: (index, project, signal) =>
      fetches.run(stop => fetchPage(index, project, stop), { key: `${index}/${project}`, signal }),
  };
}

function asFault(error: unknown, url: string): IndexFault | Error {
  const { host } = new URL(url);
  const start = `The index of Python packages at ${host}`;
  if (error instanceof PageProblem) return new IndexFault(`${start} ${error.message}`, undefined);
  if ((error as Error).name === 'TimeoutError') {
    return new IndexFault(
      `${start} did not answer within ${timeoutMs / 1000} s: try later`,
      undefined,
    );
  }
  return error as Error;
}

function isPassing(error: Error): boolean {
  if (!(error instanceof IndexFault)) return false;
  const { responseStatus } = error;
  return responseStatus === undefined || responseStatus === 429 || responseStatus >= 500;
}

async function readKept(
  path: string,
  url: string,
): Promise<{ head: PageHead; page: Uint8Array } | undefined> {
  try {
    const bytes = await readFile(path);
    const end = bytes.indexOf(10);
    const head = JSON.parse(bytes.subarray(0, end).toString()) as PageHead;
    return head.url === url ? { head, page: bytes.subarray(end + 1) } : undefined;
  } catch {
    return undefined;
  }
}

async function removeOldest(directory: string, maxBytes: number): Promise<void> {
  const files = await Promise.all(
    (await readdir(directory)).map(async name => {
      const path = join(directory, name);
      const { size, mtimeMs } = await stat(path);
      return { path, size, mtimeMs };
    }),
  );
  let bytes = files.reduce((sum, { size }) => sum + size, 0);
  for (const { path, size } of files.toSorted((a, b) => a.mtimeMs - b.mtimeMs)) {
    if (bytes <= maxBytes) return;
    await rm(path, { force: true });
    bytes -= size;
  }
}
