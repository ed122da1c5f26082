import { type IncomingMessage, ServerResponse } from 'node:http';
import type { Method } from '../../src/http/route/declaration.ts';
import { misfitMark } from './misfits.ts';
import { describe } from './response-schemas.ts';

/** Headers that describe a response: each sent one must be in the document. */
const told = ['retry-after', 'ratelimit-limit', 'ratelimit-remaining', 'location'];

async function readDocument(name: string) {
  const { createRouter } = await import('../../src/http/route/router.ts');
  const { document, validatorOf } = await describe(name);
  const find = createRouter(
    Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, operation]) => ({
        method: method as Method,
        path,
        operation,
        pointer: `#/paths/${escaped(path)}/${method}/responses/`,
        aliases: operation['x-aliases'] ?? [],
      })),
    ),
  );
  return { document, find, validatorOf };
}

/** The documents, by what the paths that they describe begin with. Each is read for its first response: starts do without. */
const documents = [
  {
    bases: ['/platform/api', '/platform'],
    read: once(() => readDocument('platform-openapi.json')),
  },
  { bases: [''], read: once(() => readDocument('openapi.json')) },
];

function once<T>(make: () => T): () => T {
  let made: T | undefined;
  return () => (made ??= make());
}

async function misfitOf(request: IncomingMessage, response: ServerResponse, body: string) {
  const [path = ''] = (request.url ?? '').split('?');
  if (path.startsWith('/v2')) return undefined;
  // A browser gets a page where a program gets a response of the API.
  const isPage = String(headerOf(response, 'content-type')).startsWith('text/html');
  if (isPage && String(request.headers.accept).includes('text/html')) return undefined;
  const { method = '' } = request;
  for (const { bases, read } of documents) {
    const base = bases.find(one => path.startsWith(one));
    if (base === undefined) continue;
    const { document, find, validatorOf } = await read();
    const found = find(method, path.slice(base.length));
    if (!found || !('route' in found)) return undefined;
    const { operation, pointer } = found.route;
    const status = String(response.statusCode);
    const isError = response.statusCode >= 400;
    const key = status in operation.responses ? status : isError ? 'default' : undefined;
    if (key === undefined) return 'the status is not declared';
    let [declared, at] = [operation.responses[key] ?? {}, `${pointer}${key}`];
    const [, name] = /^#\/components\/responses\/(\w+)$/.exec(declared.$ref ?? '') ?? [];
    if (name) [declared, at] = [document.components.responses[name] ?? {}, declared.$ref ?? ''];
    const headers = Object.keys(declared.headers ?? {}).map(one => one.toLowerCase());
    const undeclared = told.find(
      one => headerOf(response, one) !== undefined && !headers.includes(one),
    );
    if (undeclared) return `the header ${undeclared} is not declared`;
    if (body === '' || method === 'HEAD') return undefined;
    const type = String(headerOf(response, 'content-type')).replace(/;.*/, '');
    if (!declared.content?.[type]) return `${type} is not declared`;
    if (type !== 'application/json') return undefined;
    const validate = await validatorOf(`${at}/content/application~1json/schema`);
    if (validate(JSON.parse(body))) return undefined;
    const [error] = validate.errors ?? [];
    return `${error?.instancePath || 'the body'} ${error?.message} ${JSON.stringify(error?.params)}`;
  }
  return undefined;
}

/** Node forgets headers that it writes from one object. */
const writtenAtOnce = new WeakMap<ServerResponse, Readonly<Record<string, unknown>>>();

function headerOf(response: ServerResponse, name: string): unknown {
  return response.getHeader(name) ?? writtenAtOnce.get(response)?.[name];
}

export function escaped(path: string): string {
  return encodeURIComponent(path.replaceAll('~', '~0').replaceAll('/', '~1'));
}

/**
 * Checks every response of both JSON APIs against their published documents. A mismatch is a line on standard error,
 * which fails the test, see `startSluice`.
 */
export function checkResponses(): void {
  const { end, writeHead } = ServerResponse.prototype;
  ServerResponse.prototype.writeHead = function (this: ServerResponse, ...args: unknown[]) {
    const headers = args.find(one => typeof one === 'object');
    if (headers) writtenAtOnce.set(this, headers as Readonly<Record<string, unknown>>);
    return Reflect.apply(writeHead, this, args);
  };
  ServerResponse.prototype.end = function (this: ServerResponse, ...args: unknown[]) {
    const ended = Reflect.apply(end, this, args) as ServerResponse;
    const [chunk] = args;
    const isText = typeof chunk === 'string' || chunk instanceof Uint8Array;
    const body = isText ? Buffer.from(chunk as string).toString('utf8') : '';
    // The response is already sent: a mismatch shows up without a delay.
    misfitOf(this.req, this, body)
      .catch(error => `the check failed: ${error}`)
      .then(misfit => {
        if (misfit === undefined) return;
        const { method, url } = this.req;
        process.stderr.write(`${misfitMark}${method} ${url} ${this.statusCode}: ${misfit}\n`);
      });
    return ended;
  };
}
