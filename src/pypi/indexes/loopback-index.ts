import { createSecretKey, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { finished } from 'node:stream/promises';
import { Fault } from '../../foundation/fault.ts';
import { Semaphore } from '../../foundation/semaphore.ts';
import { projectVersion } from '../project-version.ts';
import { type BuiltWheel, projectName, type SourceFile } from '../wheel-file.ts';
import type { IndexAccess } from './index-access.ts';
import {
  givenPage,
  installedPage,
  type PublishedFile,
  publishedFile,
  withoutMetadata,
} from './index-page.ts';
import type { PageStore } from './page-store.ts';
import { type UnbuiltPage, unbuiltPage } from './unbuilt-page.ts';
import { MetadataMissing, type WheelMetadataSource } from './wheel-metadata-source.ts';

/**
 * An index on the loopback for one solver at a time: it is the only network that a solver has. Pages come from the store, and files
 * through the transport of this server.
 */
export interface LoopbackIndex {
  /** Opens the index for one solver. Its address is not guessable, and gone when it is disposed of. */
  open(session: IndexSession): Promise<OpenedIndex>;
  close(): Promise<void>;
}

export interface IndexSession {
  /** Base URLs of indexes: the first one that has a name is the only one for it. */
  readonly indexes: readonly string[];
  /** The version of each project that the image has from Conda, by its name as indexes compare it. */
  readonly installed: ReadonlyMap<string, string>;
  /** Indexes whose wheels the solver reads for their metadata. Default: none. */
  readonly readsWheels?: ReadonlySet<string> | undefined;
  /** Projects whose source distributions count as wheels that require nothing. Default: none. */
  readonly unbuilt?: ReadonlySet<string> | undefined;
  /** Wheels that were built of source distributions of these projects. Default: none. */
  readonly built?: readonly BuiltWheel[] | undefined;
  /** Wheels that are the only versions of their projects. Default: none. */
  readonly given?: readonly BuiltWheel[] | undefined;
  /** Receives sentences for the log of the build. */
  readonly log: (line: string) => void;
  readonly signal: AbortSignal;
}

export interface OpenedIndex extends Disposable {
  /** Address for the solver. */
  readonly url: string;
  /** Base URLs of indexes in the order in which they are asked. */
  readonly indexes: readonly string[];
  /** Returns the file at an address of a page that the solver has got; undefined for other addresses. */
  fileAt(url: string): PublishedFile | undefined;
  /** Returns the index that had a project; undefined for a project that the solver did not ask for, or none has. */
  indexOf(project: string): string | undefined;
  /** Returns the names of the wheels of a project of `unbuilt` that the solver asked for. */
  wheelsOf(project: string): readonly string[];
  /** Returns whether each source distribution of a project stood as a wheel on its page. A very large page has none. */
  hasStandIns(project: string): boolean;
  /** Returns the source distribution of a version of such a project; undefined where the index states no SHA-256. */
  sourceOf(project: string, version: string): SourceFile | undefined;
  /** Settles with the first failure of the index that ends the solve. */
  readonly failed: Promise<never>;
}

/** An index has a wheel whose metadata Sluice cannot read: the solver must read its wheels. */
export class WheelsUnread extends Error {
  readonly index: string;

  constructor(index: string, options: ErrorOptions) {
    super(`${index} has wheels without metadata that can be read in parts`, options);
    this.index = index;
  }
}

/** Limits for one solver. */
const maxRequests = 20_000;
const maxBytes = 1024 * 1024 * 1024;

/** Pages that are prepared and sent to a solver at the same time. The store limits their bytes. */
const pagesAtOnce = 8;

interface Asked {
  readonly path: string;
  /** Aborted when the solver has left. */
  readonly signal: AbortSignal;
}

interface OpenSession extends IndexSession {
  readonly caller: string;
  requests: number;
  bytes: number;
  readonly notes: Set<string>;
  /** Projects whose page the solver has got, and the index of each: only files of these are served. */
  readonly projects: Map<string, string>;
  readonly unbuiltPages: Map<string, Pick<UnbuiltPage, 'wheels' | 'sources'>>;
  fail(error: unknown): void;
}

export function createLoopbackIndex(deps: {
  readonly access: IndexAccess;
  readonly pages: PageStore;
  readonly metadata: WheelMetadataSource;
  /** That of the pages. */
  readonly key: Uint8Array;
}): LoopbackIndex {
  const key = createSecretKey(deps.key);
  const sessions = new Map<string, OpenSession>();
  const turns = new Semaphore({ perKey: pagesAtOnce });
  const server = createServer((request, response) => {
    respond(request, response).catch(() => response.destroy());
  });
  // A solver keeps its connections until it ends.
  server.unref();
  let listening: Promise<unknown> | undefined;

  const publishedAt = ({ projects }: OpenSession, path: string) => {
    const found = publishedFile(path, key);
    if (found === undefined) return undefined;
    const index = projects.get(found.project);
    return index === undefined ? undefined : { index, file: found.file };
  };

  const fileAt = (session: OpenSession, path: string) => publishedAt(session, path)?.file;

  const respond = async (request: IncomingMessage, response: ServerResponse) => {
    // The end of a connection is not a failure of the server.
    response.on('error', () => {});
    const [, secret = '', rest = ''] = /^\/([0-9a-f]{64})(\/.*)$/.exec(request.url ?? '') ?? [];
    const session = sessions.get(secret);
    if (session === undefined || (request.method !== 'GET' && request.method !== 'HEAD')) {
      response.writeHead(404).end();
      return;
    }
    try {
      session.requests += 1;
      if (session.requests > maxRequests) throw tooMuch(`${maxRequests} pages and files`);
      // The solver gives up requests whose response it no longer needs.
      const left = new AbortController();
      response.once('close', () => {
        if (!response.writableFinished) left.abort();
      });
      const signal = AbortSignal.any([session.signal, left.signal]);
      await serve(session, { path: rest, signal }, request, response);
    } catch (error) {
      if (!response.headersSent) response.writeHead(404);
      response.end();
      if (!response.destroyed) session.fail(error);
    }
  };

  const serve = async (
    session: OpenSession,
    { path, signal }: Asked,
    request: IncomingMessage,
    response: ServerResponse,
  ) => {
    const { installed } = session;
    const [, project] = /^\/simple\/([^/]+)\/$/.exec(path) ?? [];
    if (project !== undefined) {
      const name = projectName(project);
      const version = installed.get(name);
      if (version !== undefined) return sendPage(response, installedPage(name, version));
      const given = session.given?.find(one => projectName(one.name) === name);
      if (given !== undefined) return sendPage(response, givenPage(given));
      using _turn = await turns.take({ key: session.caller, signal });
      const found = await firstPage(session.indexes, name, signal);
      if (found === undefined) return void response.writeHead(404).end();
      const { index } = found;
      using kept = found.kept;
      if (kept.note !== undefined && !session.notes.has(kept.note)) {
        session.notes.add(kept.note);
        session.log(kept.note);
      }
      countBytes(session, kept.page.length);
      session.projects.set(name, index);
      const page = session.readsWheels?.has(index) ? withoutMetadata(kept.page) : kept.page;
      const built = session.built?.filter(one => projectName(one.name) === name);
      const unbuilt = session.unbuilt?.has(name) ? unbuiltPage(page, name, built) : undefined;
      if (unbuilt) {
        const { wheels, sources } = unbuilt;
        session.unbuiltPages.set(name, { wheels, sources });
      }
      sendPage(response, unbuilt?.page ?? page);
      return finished(response, { signal });
    }
    const [, file] = /^\/(?:installed|unbuilt)\/[^/]+\/([^/]+)\.metadata$/.exec(path) ?? [];
    if (file !== undefined) {
      const [name = '', version = ''] = decodeURIComponent(file).split('-');
      const text = `Metadata-Version: 2.1\nName: ${name}\nVersion: ${version}\n`;
      response.writeHead(200, { 'content-type': 'text/plain' }).end(text);
      return;
    }
    const [, made] = /^\/built\/[^/]+\/([^/]+)\.metadata$/.exec(path) ?? [];
    if (made !== undefined) {
      const fileName = decodeURIComponent(made);
      const wheels = [...(session.given ?? []), ...(session.built ?? [])];
      const text = wheels.find(one => one.fileName === fileName)?.metadata;
      response.writeHead(text === undefined ? 404 : 200, { 'content-type': 'text/plain' });
      response.end(text);
      return;
    }
    const isMetadata = path.endsWith('.metadata');
    const published = publishedAt(session, isMetadata ? path.slice(0, -'.metadata'.length) : path);
    if (published === undefined) return void response.writeHead(404).end();
    const { file: wheel, index } = published;
    if (isMetadata) {
      const onBytes = (count: number) => countBytes(session, count);
      const fetching = { signal, caller: session.caller, onBytes };
      const bytes = await deps.metadata.read(wheel, fetching).catch(cause => {
        throw cause instanceof MetadataMissing ? new WheelsUnread(index, { cause }) : cause;
      });
      // They can be a thousand times as many as came, and are written to the disk.
      countBytes(session, bytes.length);
      const headers = { 'content-type': 'text/plain', 'content-length': bytes.length };
      response.writeHead(200, headers).end(bytes);
      return;
    }
    await relay(session, { url: wheel.url, signal }, request, response);
  };

  /** Returns the page of the first index that has a project. One that is down is not passed over: the next could have another project. */
  const firstPage = async (indexes: readonly string[], project: string, signal: AbortSignal) => {
    for (const index of indexes) {
      const kept = await deps.pages.page(index, project, signal);
      if (kept !== undefined) return { index, kept };
    }
    return undefined;
  };

  /** Passes on the parts of a wheel that contain its metadata, or all of it. */
  const relay = async (
    session: OpenSession,
    { url, signal }: { readonly url: string; readonly signal: AbortSignal },
    request: IncomingMessage,
    response: ServerResponse,
  ) => {
    const isHead = request.method === 'HEAD';
    // The response to a range of one byte has the size of the file, and shows whether the index has ranges.
    const range = isHead ? 'bytes=0-0' : request.headers.range;
    const headers = range === undefined ? {} : { range };
    const upstream = await deps.access.open(url, { headers, signal });
    const { body, contentLength } = upstream;
    if (isHead) {
      body.destroy();
      const [, size] = /^bytes 0-0\/(\d+)$/.exec(upstream.headers.get('content-range') ?? '') ?? [];
      const length = size ?? contentLength;
      response.writeHead(200, {
        ...(size === undefined ? {} : { 'accept-ranges': 'bytes' }),
        ...(length === undefined ? {} : { 'content-length': length }),
      });
      response.end();
      return;
    }
    const passedOn = ['content-range', 'accept-ranges'].flatMap(name => {
      const value = upstream.headers.get(name);
      return value === undefined ? [] : [[name, value] as const];
    });
    response.writeHead(upstream.status, {
      ...Object.fromEntries(passedOn),
      ...(contentLength === undefined ? {} : { 'content-length': contentLength }),
      'content-type': 'application/octet-stream',
    });
    try {
      for (;;) {
        const chunk = await body.read();
        if (chunk === null) break;
        const { bytes } = chunk;
        countBytes(session, bytes.length);
        const copy = Buffer.from(bytes);
        chunk.release();
        if (response.destroyed) return;
        if (!response.write(copy)) await once(response, 'drain', { signal });
      }
      response.end();
    } finally {
      body.destroy();
    }
  };

  /**
   * Returns the indexes of a session in their order. Those of the configuration come first: nobody who names another index gets a package
   * of that one in place of a private package of the same name.
   */
  const inOrder = ({ indexes, log }: IndexSession): readonly string[] => {
    const each = [...new Set(indexes)];
    const isListed = (index: string) => deps.access.settingsOf(`${index}/`) !== undefined;
    const listed = each.filter(isListed);
    const others = each.filter(index => !isListed(index));
    for (const index of others) {
      if (listed.some(one => each.indexOf(one) > each.indexOf(index))) {
        log(
          `The index ${index} answers only for names that the indexes of the configuration do not have`,
        );
      }
    }
    return [...listed, ...others];
  };

  const listen = async () => {
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
  };

  return {
    async open(given) {
      listening ??= listen();
      await listening;
      const secret = randomBytes(32).toString('hex');
      const { promise: failed, reject: fail } = Promise.withResolvers<never>();
      // The solver may end first.
      failed.catch(() => {});
      const counts = {
        requests: 0,
        bytes: 0,
        notes: new Set<string>(),
        projects: new Map<string, string>(),
        unbuiltPages: new Map<string, Pick<UnbuiltPage, 'wheels' | 'sources'>>(),
      };
      const indexes = inOrder(given);
      const session = { ...given, ...counts, caller: secret, indexes, fail };
      sessions.set(secret, session);
      const { port } = server.address() as AddressInfo;
      const base = `http://127.0.0.1:${port}/${secret}/`;
      return {
        url: `${base}simple/`,
        indexes,
        failed,
        fileAt: address => (address.startsWith(base) ? fileAt(session, address) : undefined),
        wheelsOf: project => session.unbuiltPages.get(project)?.wheels ?? [],
        hasStandIns: project => session.unbuiltPages.has(project),
        sourceOf(project, version) {
          const normal = projectVersion(version);
          if (normal === undefined) return undefined;
          const source = session.unbuiltPages.get(project)?.sources.get(normal);
          const published = source && fileAt(session, source.url);
          return published && { ...source, url: published.url };
        },
        indexOf: project => session.projects.get(project),
        [Symbol.dispose]: () => void sessions.delete(secret),
      };
    },
    async close() {
      sessions.clear();
      server.closeAllConnections();
      if (listening !== undefined) await new Promise(done => server.close(done));
    },
  };
}

function sendPage(response: ServerResponse, page: Uint8Array): void {
  response
    .writeHead(200, {
      'content-type': 'application/vnd.pypi.simple.v1+json',
      'content-length': page.length,
    })
    .end(page);
}

function countBytes(session: OpenSession, bytes: number): void {
  session.bytes += bytes;
  if (session.bytes > maxBytes) throw tooMuch(`${maxBytes / 1024 / 1024} MiB`);
}

function tooMuch(what: string): Fault {
  return new Fault(
    'bad-request',
    `Solving the Python packages required more than ${what} of the index: name the versions of more packages`,
    { phase: 'build' },
  );
}
