import { connect, type Socket } from 'node:net';
import type { WireRequest } from './wire.ts';

/** A response as it came over the wire. */
export interface WireResponse {
  readonly status: number;
  readonly headers: ReadonlyMap<string, string>;
  readonly body: Buffer;
  /** All that its head promised has come. */
  readonly isWhole: boolean;
}

const silenceMs = 20_000;
const brokenSilenceMs = 300;

/** A connection that is kept as long as both sides keep it. */
export class Connection {
  readonly #port: number;
  #socket: Socket | undefined;

  constructor(port: number) {
    this.#port = port;
  }

  /** The response; undefined where none came. Rejects when the server does not take connections any more. */
  async send({ bytes, method, isBroken }: WireRequest): Promise<WireResponse | undefined> {
    // The rest of a malformed request would be the beginning of the next one.
    if (isBroken) this.close();
    const socket = await this.#open();
    const response = await exchange(socket, bytes, method, isBroken ? brokenSilenceMs : silenceMs);
    const ends = response?.headers.get('connection') === 'close' || !response?.isWhole;
    if (isBroken || ends) this.close();
    return response;
  }

  close(): void {
    this.#socket?.destroy();
    this.#socket = undefined;
  }

  async #open(): Promise<Socket> {
    if (this.#socket && !this.#socket.destroyed && !this.#socket.readableEnded) return this.#socket;
    const socket = connect(this.#port, '127.0.0.1');
    socket.setNoDelay(true);
    await new Promise<void>((resolve, reject) => {
      socket.once('connect', resolve);
      socket.once('error', reject);
    });
    socket.on('error', () => {});
    this.#socket = socket;
    return socket;
  }
}

function exchange(
  socket: Socket,
  bytes: Buffer,
  method: string,
  patienceMs: number,
): Promise<WireResponse | undefined> {
  return new Promise(resolve => {
    let received = Buffer.alloc(0);
    const done = (isEnd: boolean) => {
      clearTimeout(timer);
      socket.off('data', take).off('close', atEnd).off('end', atEnd);
      resolve(parse(received, method, isEnd));
    };
    const atEnd = () => done(true);
    const take = (part: Buffer) => {
      received = Buffer.concat([received, part]);
      if (parse(received, method, false)?.isWhole) done(false);
    };
    const timer = setTimeout(atEnd, patienceMs);
    socket.on('data', take).on('close', atEnd).on('end', atEnd);
    socket.write(bytes);
  });
}

function parse(received: Buffer, method: string, isEnd: boolean): WireResponse | undefined {
  const end = received.indexOf('\r\n\r\n');
  if (end < 0) return undefined;
  const [first = '', ...lines] = received.toString('latin1', 0, end).split('\r\n');
  const status = Number(/^HTTP\/1\.1 (\d{3})(?: |$)/.exec(first)?.[1] ?? 0);
  const rest = received.subarray(end + 4);
  if (status >= 100 && status < 200 && status !== 101) return parse(rest, method, isEnd);
  const headers = new Map(
    lines.map(line => {
      const colon = line.indexOf(':');
      return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()] as const;
    }),
  );
  const responseWith = (body: Buffer, isWhole: boolean) => ({ status, headers, body, isWhole });
  if (method === 'HEAD' || status === 204 || status === 304)
    return responseWith(Buffer.alloc(0), true);
  const length = headers.get('content-length');
  if (length !== undefined) {
    const wanted = Number(length);
    return responseWith(rest.subarray(0, wanted), rest.length >= wanted);
  }
  if (headers.get('transfer-encoding') === 'chunked') return chunked(rest, responseWith);
  return responseWith(rest, isEnd);
}

function chunked(
  rest: Buffer,
  responseWith: (body: Buffer, isWhole: boolean) => WireResponse,
): WireResponse {
  const parts: Buffer[] = [];
  for (let at = 0; ; ) {
    const line = rest.indexOf('\r\n', at);
    if (line < 0) return responseWith(Buffer.concat(parts), false);
    const size = Number.parseInt(rest.toString('latin1', at, line), 16);
    if (size === 0) return responseWith(Buffer.concat(parts), true);
    parts.push(rest.subarray(line + 2, line + 2 + size));
    at = line + 2 + size + 2;
    if (!(at <= rest.length)) return responseWith(Buffer.concat(parts), false);
  }
}
