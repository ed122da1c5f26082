import type { Ask } from './ask.ts';
import type { Random } from './random.ts';
import { mutated, oddText } from './texts.ts';

/** A request as it goes over the wire. */
export interface WireRequest {
  readonly bytes: Buffer;
  readonly method: string;
  readonly target: string;
  /** Head or body violate HTTP: any answer is allowed, or none, and the connection ends with it. */
  readonly isBroken: boolean;
}

const versions = ['HTTP/1.0', 'HTTP/1.1', 'HTTP/2.0', 'HTTP/9.9', 'http/1.1', 'X', ''];
const headers: readonly string[] = [
  ...['host', 'connection', 'expect', 'transfer-encoding', 'content-length', 'te', 'upgrade'],
  ...['x-forwarded-for', 'forwarded', 'origin', 'cookie', 'authorization', 'accept', 'range'],
  ...['content-encoding', 'accept-encoding', 'if-range', 'sec-fetch-site', 'x-request-id', 'date'],
];

/** Puts a request on the wire, once in a while in another form, with odd headers, or malformed. */
export function onWire(random: Random, ask: Ask, host: string): WireRequest {
  const method = random.once(60) ? mutated(random, ask.method) : ask.method;
  const { target, isOdd } = targetOf(random, ask.target, host);
  const version = random.once(60) ? random.pick(versions) : 'HTTP/1.1';
  const lines = [`host: ${host}`, ...ask.headers.map(([name, value]) => `${name}: ${value}`)];
  if (ask.body) lines.push(`content-length: ${ask.body.length}`);
  // A fragment has no place in a request line.
  let isBroken = isOdd || target.includes('#') || method !== ask.method || version !== 'HTTP/1.1';
  // The same holds for a control character in a header: such a head never becomes a request.
  isBroken ||= lines.some(line =>
    /[^\t\x20-\x7e\x80-\xff]/.test(Buffer.from(line).toString('latin1')),
  );
  if (random.once(15)) {
    isBroken = true;
    for (let more = random.int(4); more >= 0; more -= 1) {
      lines.push(
        `${random.pick(headers)}: ${random.once(2) ? oddText(random) : random.pick(values)}`,
      );
    }
  }
  if (random.once(100)) {
    isBroken = true;
    lines.splice(random.int(lines.length), 1);
  }
  if (random.once(200)) {
    isBroken = true;
    lines.push(...Array.from({ length: 3000 }, (_, at) => `x-${at}: a`));
  }
  const head = `${method} ${target} ${version}\r\n${lines.join('\r\n')}\r\n\r\n`;
  const bytes = Buffer.concat([Buffer.from(head, 'utf8'), ask.body ?? Buffer.alloc(0)]);
  if (random.once(150)) {
    const cut = bytes.subarray(0, random.int(bytes.length));
    return { bytes: cut, method, target, isBroken: true };
  }
  return {
    bytes,
    method,
    target,
    isBroken: isBroken || !/^[\x21-\x7e]+$/.test(head.split(' ')[1] ?? ''),
  };
}

const values = [
  'close',
  'keep-alive',
  '100-continue',
  'chunked',
  'websocket',
  '0',
  '-1',
  '1, 2',
  'gzip',
];

/** The target in the forms that a request line may have. Source: RFC 9112, section 3.2. */
function targetOf(random: Random, path: string, host: string): { target: string; isOdd: boolean } {
  const encoded = path.replace(/[^\x21-\x7e]/gu, text => encodeURIComponent(text.toWellFormed()));
  if (!random.once(12)) return { target: encoded, isOdd: false };
  const target = random.pick([
    ...['*', '/', '', '?', '#', '//', 'x', `${host}`, `127.0.0.1:443`, 'a:b', '/%', '/%zz'],
    ...[
      `http://${host}${encoded}`,
      `https://other.example${encoded}`,
      `http://[/v2/x`,
      'http://',
      'ftp://a/b',
    ],
    ...[
      `http://a:b@${host}${encoded}`,
      `//${host}${encoded}`,
      `\\\\${encoded}`,
      `http://[::1${encoded}`,
    ],
    ...[`${encoded}#fragment`, `${encoded}?${'a=b&'.repeat(2000)}`, `${encoded}/..;/`, path],
    mutated(random, encoded),
  ]);
  return { target, isOdd: true };
}
