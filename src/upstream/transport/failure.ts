import { Fault, type FaultOptions } from '../../foundation/fault.ts';
import { OciSyntaxError } from '../../oci/naming.ts';
import type { ByteSource } from '../../storage/content/byte-source.ts';
import type { Access } from '../access.ts';
import { basicHeader, type Credentials } from '../credentials.ts';
import { RedirectFailure } from './redirect.ts';
import { retryAfterSeconds } from './retry.ts';
import type { UpstreamRequest } from './upstream-request.ts';
import type { UpstreamResponse } from './upstream-response.ts';

const timeouts: Readonly<Record<string, string>> = {
  UND_ERR_CONNECT_TIMEOUT: 'did not accept a connection in time',
  UND_ERR_HEADERS_TIMEOUT: 'did not answer in time',
  UND_ERR_BODY_TIMEOUT: 'stopped sending',
  ETIMEDOUT: 'did not accept a connection in time',
  'timeout-connect': 'did not accept a connection in time',
  'timeout-headers': 'did not answer in time',
  'timeout-idle': 'stopped sending',
};

// Also the response of a name service that knows only the names of its own network.
const noAddress =
  'has no address: check its name. If no other name is found either, this server has no name service (DNS) for them';

const reasons: Readonly<Record<string, string>> = {
  ENOTFOUND: noAddress,
  EAI_AGAIN:
    'could not be looked up, because the name service (DNS) does not answer: check the DNS settings of this server',
  ECONNREFUSED: 'refused the connection',
  ECONNRESET: 'closed the connection',
  EPIPE: 'closed the connection',
  UND_ERR_RES_CONTENT_LENGTH_MISMATCH: 'closed the connection',
  UND_ERR_SOCKET: 'closed the connection',
  EHOSTUNREACH: 'cannot be reached',
  ENETUNREACH: 'cannot be reached',
  reset: 'closed the connection',
  short: 'sent less than it announced',
};

/** Returns the fault for a request without a response: network, timeout, certificate, rejected address. */
export function faultOfError(
  error: unknown,
  access: Pick<Access, 'registry'>,
  request: Pick<UpstreamRequest, 'what'>,
  subject = `The registry ${access.registry}`,
): Fault {
  if (error instanceof Fault) return error;
  if (error instanceof RedirectFailure) {
    return faultOfError(error.cause, { registry: error.to.host }, request, error.message);
  }
  const inner = innermost(error);
  if (inner instanceof Fault) return inner;
  if (inner instanceof OciSyntaxError) {
    return new Fault('upstream', inner.message, { phase: 'upstream', cause: error });
  }
  const code = codeOf(error) ?? codeOf(inner) ?? '';
  const options: FaultOptions = { phase: 'upstream', cause: error };
  const late = timeouts[code];
  if (late) {
    return new Fault(
      'upstream-timeout',
      `${subject} ${late} (asked for ${request.what}): try again later`,
      options,
    );
  }
  const known = reasons[codeOf(inner) ?? ''] ?? reasons[code];
  const lasting = known === undefined ? certificateReason(inner, access) : undefined;
  const reason = known ?? lasting ?? 'could not be reached';
  const isLasting = lasting !== undefined || known === noAddress;
  const orCheck = known === reasons.ECONNREFUSED ? ', or check its name and port' : '';
  return new Fault(
    isLasting ? 'upstream-unusable' : 'upstream',
    `${subject} ${reason} (asked for ${request.what})${isLasting ? '' : `: try again later${orCheck}`}`,
    options,
  );
}

/** Returns the fault for a status of 400 and above, and for a redirect that cannot be followed. */
export async function faultOfStatus(
  response: UpstreamResponse,
  access: Access,
  request: UpstreamRequest,
): Promise<Fault> {
  const { status } = response;
  const words = await readErrorWords(response, access.credentials);
  const said = quoted(words);
  const { registry } = access;
  const retryAfter = retryAfterSeconds(response);
  const options: FaultOptions = {
    phase: status === 401 || status === 403 ? 'credentials' : 'upstream',
    ...(retryAfter === undefined ? {} : { retryAfterSeconds: retryAfter }),
    ...causeOf(words),
  };
  switch (status) {
    case 401:
    case 403:
      if (isOfQuota(words.quote)) {
        return new Fault(
          'denied',
          `The quota at ${registry} is used up, so it refuses ${request.what} (${status}): delete images there, or ask its owner for more space${said}`,
          { ...options, phase: 'upstream' },
        );
      }
      return new Fault('denied', `${deniedMessage(status, access, request)}${said}`, options);
    case 404:
    case 410:
      return new Fault(
        request.missing,
        `${request.what} does not exist at ${registry}${said}`,
        options,
      );
    case 416:
      return new Fault(
        'range-invalid',
        `${request.what} is shorter than the requested range: start the download again`,
        options,
      );
    case 429:
      return new Fault(
        'too-many-requests',
        `The registry ${registry} limits the rate of requests: try again later. Credentials usually raise the limit: send the platform access token of a user who has some for ${registry}, or ask the operator to configure them${said}`,
        options,
      );
    default:
      if (status < 400) {
        return new Fault(
          'upstream-unusable',
          `The registry ${registry} answered ${status} for ${request.what}, which is not a redirect that can be followed: check the name of the registry`,
          options,
        );
      }
      return new Fault(
        'upstream',
        `The registry ${registry} answered ${status} for ${request.what}: try again later${said}`,
        options,
      );
  }
}

function deniedMessage(status: number, access: Access, request: UpstreamRequest): string {
  const { registry } = access;
  const remedy = access.credentials
    ? `the credentials configured for ${registry} do not give access, or it does not exist`
    : `it is private or does not exist, and this server has no credentials for ${registry} that this caller may use: send the platform access token of a user who has credentials for ${registry}`;
  return `${registry} refused access to ${request.what} (${status}): ${remedy}`;
}

function certificateReason(error: unknown, access: Pick<Access, 'registry'>): string | undefined {
  const code = codeOf(error) ?? '';
  if (/CERT|SIGNATURE|ISSUER|ALTNAME/.test(code)) {
    return `has a certificate that is not trusted (${code}): the operator can name its authority, or a self-signed certificate itself, with registries.${access.registry}.ca`;
  }
  if (/SSL|TLS|EPROTO/.test(code)) {
    return `does not speak TLS as expected: if it speaks plain http, the operator can allow that with registries.${access.registry}.plainHttp`;
  }
  return undefined;
}

function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error ? String(error.code) : undefined;
}

/** Transports wrap the informative error: follows the causes, and the first of several tries. */
function innermost(error: unknown): unknown {
  let current = error;
  for (let depth = 0; depth < 8; depth += 1) {
    if (current instanceof AggregateError && current.errors.length > 0) current = current.errors[0];
    else if (current instanceof Error && current.cause instanceof Error) current = current.cause;
    else return current;
  }
  return current;
}

/** The message in the body of an error. */
interface ErrorWords {
  /** Short and on one line, for messages; empty when the body has none. */
  readonly quote: string;
  /** The first 4 KiB of the body, for the log. */
  readonly text: string;
}

const keptBytes = 4096;
const quotedCharacters = 300;
// A slower error is reported without its message.
const longestMs = 1000;

/** Reads the message of an error and ends its body. Never throws. Masks what the request contained. */
export async function readErrorWords(
  { headers, body }: UpstreamResponse,
  credentials: Credentials | undefined,
): Promise<ErrorWords> {
  const bytes = await readBeginning(body);
  const text = masked(bytes.toString('utf8'), credentials).replace(/\p{C}+/gu, ' ');
  const quote = wordsIn(text, headers.get('content-type') ?? '');
  return { quote: quote.replace(/\s+/g, ' ').trim().slice(0, quotedCharacters), text };
}

/** Returns the part of the body that arrived in time. */
async function readBeginning(body: ByteSource): Promise<Buffer> {
  const { promise: overdue, resolve } = Promise.withResolvers<null>();
  const timer = setTimeout(resolve, longestMs, null);
  const parts: Buffer[] = [];
  let size = 0;
  try {
    while (size < keptBytes) {
      const chunk = await Promise.race([body.read(), overdue]);
      if (chunk === null) break;
      parts.push(Buffer.from(chunk.bytes.subarray(0, keptBytes - size)));
      size += chunk.bytes.length;
      chunk.release();
    }
  } catch {
    // The body broke off: use the part that arrived.
  }
  clearTimeout(timer);
  body.destroy();
  return Buffer.concat(parts);
}

/** Returns the message as one more sentence; empty when there is none. */
export function quoted({ quote }: ErrorWords): string {
  return quote === '' ? '' : `. It said: "${quote}"`;
}

/** Returns the message as the cause of a fault, for the log. */
export function causeOf({ text }: ErrorWords): { cause?: Error } {
  return text.trim() === '' ? {} : { cause: new Error(`its response was: ${text}`) };
}

/** Returns the part of a body that is meant for people: registries send JSON, object stores XML, proxies HTML. */
function wordsIn(text: string, type: string): string {
  const start = text.trimStart();
  if (start.startsWith('{')) return jsonWords(start);
  if (start.startsWith('<')) {
    const message = /<message>([^<]*)<\/message>/i.exec(text) ?? /<title>([^<]*)</i.exec(text);
    return message?.[1] ?? '';
  }
  return /^(?:text\/plain|application\/json)/i.test(type) || type === '' ? start : '';
}

/** Returns whether a message says that a quota is used up. Source: Harbor, which reports a full project as a missing right. */
function isOfQuota(message: string): boolean {
  return /\bquota\b|exceed the configured upper limit/i.test(message);
}

/** Returns the title of a web page, in one line; empty for a page without one. */
export function titleOf(page: string): string {
  const title = /<title[^<>]*>([^<]*)</i.exec(page)?.[1] ?? '';
  return title
    .replace(/[\p{C}\s]+/gu, ' ')
    .trim()
    .slice(0, quotedCharacters);
}

/** Sources: distribution specification, Error codes; OAuth 2.0, `error_description`; common APIs. */
function jsonWords(text: string): string {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    // The text was cut off after the first bytes, or is not JSON.
    return /"message"\s*:\s*"((?:[^"\\]|\\.)*)"/.exec(text)?.[1] ?? '';
  }
  const { errors, ...own } = value as { errors?: unknown } & Record<string, unknown>;
  const first = Array.isArray(errors) ? (errors[0] as Record<string, unknown> | null) : own;
  const { message, detail, details, error_description, error } = first ?? {};
  const found = [message, error_description, details, error, detail].find(
    part => typeof part === 'string' && part !== '',
  );
  return String(found ?? '');
}

/** Removes what a server may repeat of a request: credentials, tokens, and the queries of signed addresses. */
function masked(text: string, credentials: Credentials | undefined): string {
  const secrets =
    credentials?.kind === 'password'
      ? [
          credentials.password,
          basicHeader(credentials.username, credentials.password).slice('Basic '.length),
        ]
      : [credentials?.token ?? ''];
  return secrets
    .filter(secret => secret.length > 3)
    .reduce((words, secret) => words.replaceAll(secret, '***'), text)
    .replace(/\b(bearer|basic) +[\w+/=.~-]{8,}/gi, '$1 ***')
    .replace(/\beyJ[\w-]{5,}\.[\w-]*\.?[\w-]*/g, '***')
    .replace(/(https?:\/\/[^\s"'<>?]{1,300})\?[^\s"'<>]*/g, '$1');
}
