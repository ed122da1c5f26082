/**
 * Fetches a URL with a number of simultaneous clients and discards the bytes: `node bench/fetch.ts URL CLIENTS`. Prints
 * `{"bytes":..., "seconds":...}`, from the first connect to the last byte.
 * It runs in its own process, so that the load is outside the measured one. One fixed buffer keeps its cost low.
 */
import { connect } from 'node:net';

const buffer = Buffer.allocUnsafeSlow(1024 * 1024);

/** Resolves with the bytes of the body. Rejects unless the response is a complete 200. */
function fetchOnce(url: URL): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  let head = '';
  let expected = -1;
  let received = 0;
  const take = (count: number, bytes: Uint8Array): boolean => {
    if (expected >= 0) {
      received += count;
    } else {
      head += Buffer.from(bytes.buffer, bytes.byteOffset, count).toString('latin1');
      const end = head.indexOf('\r\n\r\n');
      if (end < 0) return true;
      const length = /^content-length: *(\d+)/im.exec(head.slice(0, end))?.[1];
      if (!head.startsWith('HTTP/1.1 200 ') || length === undefined) {
        reject(new Error(`${url}: ${head.slice(0, end)}`));
        socket.destroy();
        return false;
      }
      expected = Number(length);
      received = head.length - end - 4;
    }
    if (received >= expected) socket.destroy();
    return received < expected;
  };
  const socket = connect({
    host: url.hostname,
    port: Number(url.port),
    onread: { buffer, callback: take },
  });
  socket.on('error', reject);
  socket.on('close', () => {
    if (expected >= 0 && received === expected) resolve(received);
    else reject(new Error(`${url}: ended after ${received} of ${expected} bytes`));
  });
  socket.write(`GET ${url.pathname}${url.search} HTTP/1.1\r\nhost: ${url.host}\r\n\r\n`);
  return promise;
}

const [address = '', clients = '1'] = process.argv.slice(2);
const url = new URL(address);
const began = performance.now();
const sizes = await Promise.all(Array.from({ length: Number(clients) }, () => fetchOnce(url)));
const seconds = (performance.now() - began) / 1000;
console.log(JSON.stringify({ bytes: sizes.reduce((sum, size) => sum + size, 0), seconds }));
