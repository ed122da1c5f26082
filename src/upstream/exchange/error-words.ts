import type { ByteSource } from '../../storage/content/byte-source.ts';
import { basicHeader, type Credentials } from '../auth/credentials.ts';
import type { Answer } from './answer.ts';

/** What the body of an error says. */
export interface ErrorWords {
  /** Short and on one line, for a message; empty when the body says nothing. */
  readonly quote: string;
  /** The first 4 KiB of the body, for the log. */
  readonly text: string;
}

const keptBytes = 4096;
const quotedCharacters = 300;
// An error that comes so slowly is reported without its words.
const longestMs = 1000;

/** Reads what an error says and ends its body. Never throws; what was sent to the server is masked. */
export async function readErrorWords(
  { headers, body }: Answer,
  credentials: Credentials | undefined,
): Promise<ErrorWords> {
  const bytes = await readBeginning(body);
  const text = masked(bytes.toString('utf8'), credentials).replace(/\p{C}+/gu, ' ');
  const quote = wordsIn(text, headers.get('content-type') ?? '');
  return { quote: quote.replace(/\s+/g, ' ').trim().slice(0, quotedCharacters), text };
}

/** What has come of the body in time. */
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
    // It broke off: what has come is all there is.
  }
  clearTimeout(timer);
  body.destroy();
  return Buffer.concat(parts);
}

/** The words as one more sentence; nothing where there are none. */
export function quoted({ quote }: ErrorWords): string {
  return quote === '' ? '' : `. It said: "${quote}"`;
}

/** The words as the cause of a fault, which the log has. */
export function causeOf({ text }: ErrorWords): { cause?: Error } {
  return text.trim() === '' ? {} : { cause: new Error(`its answer was: ${text}`) };
}

/** The part of a body that is meant for people: registries answer JSON, object stores XML, proxies HTML. */
function wordsIn(text: string, type: string): string {
  const start = text.trimStart();
  if (start.startsWith('{')) return jsonWords(start);
  if (start.startsWith('<')) {
    const message = /<message>([^<]*)<\/message>/i.exec(text) ?? /<title>([^<]*)</i.exec(text);
    return message?.[1] ?? '';
  }
  return /^(?:text\/plain|application\/json)/i.test(type) || type === '' ? start : '';
}

/** Sources: distribution specification, Error codes; OAuth 2.0, `error_description`; common APIs. */
function jsonWords(text: string): string {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    // Cut off after the bytes that are kept, or not JSON at all.
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

/** Without what a server may repeat of a request: credentials, tokens, and the queries of signed addresses. */
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
