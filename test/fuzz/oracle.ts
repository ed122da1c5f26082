import type { WireResponse } from './connection.ts';
import type { WireRequest } from './wire.ts';

// Text that no response may contain: stack frames, files of the server, secrets of the requests.
const leaks = [
  /\n\s+at .+:\d+:\d+/,
  /\/node_modules\//,
  /\/src\/[a-z/-]+\.ts/,
  /node:internal/,
  /\/tmp\/|\/var\/|\/root\//,
  /SQLITE_|SqliteError/,
];

/** Words that must not be in a response: passwords, and the place of the server's state. */
export type Secrets = readonly string[];

/** Returns the violation in a response, or undefined. */
export function judge(
  request: WireRequest,
  response: WireResponse | undefined,
  secrets: Secrets,
): string | undefined {
  if (!response) return request.isBroken ? undefined : 'no answer';
  const { status, headers, body } = response;
  if (status < 200 || status > 599) return `status ${status}`;
  if (!response.isWhole && !request.isBroken) return 'an answer that is not whole';
  const text = body.toString('latin1');
  const shown = `${[...headers].flat().join('\n')}\n${text}`;
  const leak =
    leaks.find(pattern => pattern.test(shown)) ?? secrets.find(secret => shown.includes(secret));
  // Messages repeat text of the client: only other text can be the server's. A dry run shows the Dockerfile of a
  // definition file, which contains paths of an image.
  if (leak !== undefined && !isEcho(leak, request) && !isForecast(text))
    return `an answer with ${leak} in it`;
  if (headers.has('x-injected')) return 'a header that came from the request';
  if (status >= 500 && !isReasoned(status, text)) return `status ${status}`;
  if (status < 400) return undefined;
  return judgeError(request, response, text);
}

function judgeError(
  request: WireRequest,
  response: WireResponse,
  text: string,
): string | undefined {
  const { headers, body } = response;
  // The request was not HTTP: the parser answers, which knows no dialect.
  if (request.isBroken && body.length === 0) return undefined;
  if (request.method === 'HEAD') return undefined;
  const type = headers.get('content-type') ?? '';
  if (/^text\/html/.test(type)) return judgeErrorPage(request, text);
  if (!/^application\/json/.test(type)) return 'an error without JSON';
  let document: { message?: unknown; errors?: { code?: unknown; message?: unknown }[] };
  try {
    document = JSON.parse(body.toString('utf8'));
  } catch {
    return 'an error that is not JSON';
  }
  const [error] = document.errors ?? [];
  const isRegistry = typeof error?.code === 'string' && typeof error.message === 'string';
  // Bytes that never became a request have no id in the log.
  const isParsers = request.isBroken || response.status === 431;
  const isApi =
    typeof document.message === 'string' &&
    (isParsers || / - Error ID: [0-9a-f]+$/.test(document.message));
  if (!isRegistry && !isApi) return `an error in no dialect: ${text.slice(0, 80)}`;
  if (isParsers) return undefined;
  return isRegistryTarget(request.target) === isRegistry
    ? undefined
    : 'an error in the wrong dialect';
}

/** A failure as a page, for clients that accept pages. */
function judgeErrorPage({ bytes, target }: WireRequest, text: string): string | undefined {
  const wantsPage = /\r\naccept:[^\r]*html/i.test(bytes.toString('latin1'));
  if (!wantsPage || isRegistryTarget(target)) return 'a page for a program';
  if (!/<p class="failure">[^<]+<\/p>/.test(text)) return 'an error page without a reason';
  return /Error ID: <code>[0-9a-f]+<\/code>/.test(text) ? undefined : 'an error page without an id';
}

function isRegistryTarget(target: string): boolean {
  return /^\/v2(?:[/?#]|$)/.test(target);
}

/** A failure of another host, which the message names. */
function isReasoned(status: number, text: string): boolean {
  if (status === 502 || status === 504)
    return /registry |registry's|platform |redirects /.test(text);
  if (status === 503) return /builder|build/.test(text);
  return status === 501 || status === 505;
}

function isForecast(text: string): boolean {
  return /^\{[^}]*"dryRun":true|"containerFile":"/.test(text);
}

function isEcho(leak: RegExp | string, { bytes, target }: WireRequest): boolean {
  const sent = `${bytes.toString('latin1')}\n${safeDecoded(target)}`;
  return typeof leak === 'string' ? sent.includes(leak) : leak.test(sent);
}

function safeDecoded(target: string): string {
  try {
    return decodeURIComponent(target);
  } catch {
    return target;
  }
}
