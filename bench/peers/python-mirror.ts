import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

/** An index of Python packages on the loopback, which keeps in memory what it was asked for once. */
export interface PythonMirror extends AsyncDisposable {
  /** Base URL of its pages; its files are below the same host. */
  readonly url: string;
}

interface Kept {
  readonly status: number;
  readonly type: string;
  readonly body: Buffer;
}

/** Starts a mirror of an index, so that a measurement is not one of a network. */
export async function startPythonMirror(index: string): Promise<PythonMirror> {
  const kept = new Map<string, Promise<Kept>>();
  const places = new Map<string, string>();
  const page = async (project: string): Promise<Kept> => {
    const accept = 'application/vnd.pypi.simple.v1+json';
    const address = `${index}/${project}/`;
    const response = await fetch(address, { headers: { accept } });
    if (response.status !== 200) return { status: 404, type: 'text/plain', body: Buffer.alloc(0) };
    const answer = (await response.json()) as { files: { url: string; filename: string }[] };
    const files = answer.files.map(file => {
      const path = `/files/${project}/${file.filename}`;
      places.set(path, new URL(file.url, address).href);
      return { ...file, url: path };
    });
    return { status: 200, type: accept, body: Buffer.from(JSON.stringify({ ...answer, files })) };
  };
  const file = async (path: string): Promise<Kept> => {
    const isMetadata = path.endsWith('.metadata');
    const place = places.get(isMetadata ? path.slice(0, -'.metadata'.length) : path);
    const response = place && (await fetch(isMetadata ? `${place}.metadata` : place));
    const isThere = response !== undefined && response !== '' && response.status === 200;
    const body = isThere ? Buffer.from(await response.arrayBuffer()) : Buffer.alloc(0);
    return { status: isThere ? 200 : 404, type: 'application/octet-stream', body };
  };
  const answerTo = (path: string): Promise<Kept> => {
    const known = kept.get(path);
    if (known) return known;
    const [, project] = /^\/simple\/([^/]+)\/$/.exec(path) ?? [];
    const made = project === undefined ? file(path) : page(project);
    kept.set(path, made);
    return made;
  };
  const server = createServer(({ url = '', method, headers }, response) => {
    answerTo(decodeURIComponent(url)).then(
      ({ status, type, body }) => {
        const [, first = '', last = ''] = /^bytes=(\d+)-(\d*)$/.exec(headers.range ?? '') ?? [];
        const part =
          first === ''
            ? body
            : body.subarray(Number(first), last === '' ? body.length : Number(last) + 1);
        const range = `bytes ${first}-${Number(first) + part.length - 1}/${body.length}`;
        response.writeHead(status === 200 && first !== '' ? 206 : status, {
          'content-type': type,
          'content-length': part.length,
          'accept-ranges': 'bytes',
          ...(first === '' ? {} : { 'content-range': range }),
        });
        response.end(method === 'HEAD' ? undefined : part);
      },
      () => response.destroy(),
    );
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const stop = async () => {
    server.closeAllConnections();
    server.close();
  };
  return { url: `http://127.0.0.1:${port}/simple`, [Symbol.asyncDispose]: stop };
}
