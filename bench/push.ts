/**
 * Pushes a file as a blob: `node bench/push.ts FILE REPOSITORY-URL DIGEST [AUTHORIZATION]`. Prints `{"bytes":...,
 * "seconds":...}`, from the start of the upload to its acknowledgement. It runs in its own process, so that the load is
 * outside the measured one.
 */
import { once } from 'node:events';
import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { request } from 'node:http';

const [file = '', repository = '', digest = '', authorization] = process.argv.slice(2);
const headers = authorization === undefined ? {} : { authorization };
const { size } = await stat(file);

const began = performance.now();
const started = await send('POST', new URL(`${repository}/blobs/uploads/`), 202);
const sent = await send('PATCH', started, 202, size);
sent.searchParams.set('digest', digest);
await send('PUT', sent, 201);
const seconds = (performance.now() - began) / 1000;
console.log(JSON.stringify({ bytes: size, seconds }));

/** Sends a request, with the file if a length is given. Returns the `Location` of the response. */
async function send(method: string, url: URL, expected: number, length = 0): Promise<URL> {
  const message = request(url, { method, headers: { ...headers, 'content-length': length } });
  const responded = once(message, 'response');
  if (length > 0) createReadStream(file, { highWaterMark: 1024 * 1024 }).pipe(message);
  else message.end();
  const [response] = await responded;
  response.resume();
  if (response.statusCode !== expected) throw new Error(`${method} ${url}: ${response.statusCode}`);
  await once(response, 'end');
  return new URL(response.headers.location ?? '', url);
}
