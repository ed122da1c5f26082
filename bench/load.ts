import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { requireCommand } from '../test/world/tools.ts';

const run = promisify(execFile);

/** Returns the bytes per second of simultaneous clients of one blob. */
export async function bytesPerSecond(url: string, clients: number): Promise<number> {
  const script = new URL('fetch.ts', import.meta.url).pathname;
  const { stdout } = await run(process.execPath, [script, url, String(clients)]);
  const { bytes, seconds } = JSON.parse(stdout) as { bytes: number; seconds: number };
  return bytes / seconds;
}

/** The same over TLS with curl, which reads faster than Node's TLS. Certificates are not checked. */
export async function secureBytesPerSecond(url: string, clients: number): Promise<number> {
  const curl = requireCommand('curl');
  const format = '%{size_download} %{http_code}';
  const began = performance.now();
  const results = await Promise.all(
    Array.from({ length: clients }, () =>
      run(curl, ['-sSk', '-o', '/dev/null', '-w', format, url]),
    ),
  );
  const seconds = (performance.now() - began) / 1000;
  let total = 0;
  for (const { stdout } of results) {
    const [bytes = 0, status] = stdout.split(' ').map(Number);
    if (status !== 200) throw new Error(`${url}: ${stdout}`);
    total += bytes;
  }
  return total / seconds;
}

export interface RequestOptions {
  /** Lines such as `Accept: text/plain`. */
  readonly headers?: readonly string[];
  /** A wrk script, for methods other than GET. */
  readonly script?: string;
}

const seconds = 3;
// Enough that neither side waits for the next request.
const connections = 64;

/** Returns the answered requests per second of wrk. Throws when a response is not 2xx or 3xx. */
export async function requestsPerSecond(
  url: string,
  options: RequestOptions = {},
): Promise<number> {
  const headers = (options.headers ?? []).flatMap(header => ['-H', header]);
  const script = options.script === undefined ? [] : ['-s', options.script];
  const { stdout } = await run(requireCommand('wrk'), [
    ...['-t1', `-c${connections}`, `-d${seconds}s`, ...headers, ...script, url],
  ]);
  const rate = /Requests\/sec:\s+([\d.]+)/.exec(stdout)?.[1];
  if (rate === undefined || /Non-2xx|Socket errors/.test(stdout)) {
    throw new Error(`${url}: ${stdout}`);
  }
  return Number(rate);
}
