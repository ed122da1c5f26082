import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { TestContext } from 'node:test';

type Answer = (request: IncomingMessage, response: ServerResponse) => void;

/** An index that answers as a test says, and notes what it is asked. */
export interface ScriptedIndex {
  /** Base URL. */
  readonly url: string;
  readonly origin: string;
  readonly requests: { readonly path: string; readonly authorization: string | undefined }[];
  answer: Answer;
}

export async function startIndex(t: TestContext, answer: Answer): Promise<ScriptedIndex> {
  const server = createServer((request, response) => {
    const { authorization } = request.headers;
    index.requests.push({ path: request.url ?? '', authorization });
    index.answer(request, response);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const index: ScriptedIndex = { url: `${origin}/simple`, origin, requests: [], answer };
  return index;
}

/** A project with one wheel of each version. */
export interface ListedProject {
  /** What each version requires. */
  readonly versions: Readonly<Record<string, readonly string[]>>;
  /** Base URL of its files. Default: the index. */
  readonly files?: string;
}

/** Answers as an index with these projects does. */
export function listing(projects: Readonly<Record<string, ListedProject>>): Answer {
  return (request, response) => {
    const path = request.url ?? '';
    const [, name = ''] = /^\/simple\/([^/]+)\/$/.exec(path) ?? [];
    const project = projects[name];
    if (project !== undefined) {
      const files = Object.keys(project.versions).map(version => ({
        filename: `${name}-${version}-py3-none-any.whl`,
        url: `${project.files ?? ''}/files/${name}-${version}-py3-none-any.whl`,
        hashes: { sha256: createHash('sha256').update(`${name} ${version}`).digest('hex') },
        size: 1000,
        'core-metadata': true,
      }));
      const body = JSON.stringify({ meta: { 'api-version': '1.1' }, name, files });
      response.writeHead(200, {
        'content-type': 'application/vnd.pypi.simple.v1+json',
        etag: '"1"',
      });
      response.end(body);
      return;
    }
    const [, of = '', version = ''] = /^\/files\/([^/-]+)-([^/-]+)-.*\.metadata$/.exec(path) ?? [];
    const requires = projects[of]?.versions[version];
    if (requires === undefined) return void response.writeHead(404).end();
    const lines = requires.map(it => `Requires-Dist: ${it}\n`).join('');
    response.end(`Metadata-Version: 2.1\nName: ${of}\nVersion: ${version}\n${lines}`);
  };
}

/** Starts an index with these files of each project, which require nothing. */
export async function scriptedIndex(
  t: TestContext,
  projects: Readonly<Record<string, readonly string[]>>,
): Promise<ScriptedIndex> {
  return startIndex(t, (request, response) => {
    const path = request.url ?? '';
    const [, name = ''] = /^\/simple\/([^/]+)\/$/.exec(path) ?? [];
    const [, of = '', version = ''] = /^\/files\/([^/-]+)-([^/-]+)-.*\.metadata$/.exec(path) ?? [];
    if (of !== '') {
      return void response.end(`Metadata-Version: 2.1\nName: ${of}\nVersion: ${version}\n`);
    }
    const listed = projects[name];
    if (listed === undefined) return void response.writeHead(404).end();
    const files = listed.map(filename => ({
      filename,
      url: `/files/${filename}`,
      hashes: { sha256: createHash('sha256').update(filename).digest('hex') },
      'core-metadata': filename.endsWith('.whl'),
    }));
    response.writeHead(200, { 'content-type': 'application/vnd.pypi.simple.v1+json' });
    response.end(JSON.stringify({ meta: { 'api-version': '1.1' }, name, files }));
  });
}
