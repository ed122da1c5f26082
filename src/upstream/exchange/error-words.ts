import type { ByteSource } from '../../storage/content/byte-source.ts';
import { basicHeader, type Credentials } from '../auth/credentials.ts';
import type { UpstreamResponse } from './upstream-response.ts';

/** The message in the body of an error. */
export interface ErrorWords {
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
  return text.trim() === '' ? {} : { cause: new Error(`its answer was: ${text}`) };
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
export function isOfQuota(message: string): boolean {
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
