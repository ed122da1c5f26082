/**
 * Clients that pull blobs, in their own process: `node clients.ts <url>[,<url>...] <count> <bytesPerSecond>`. The rate is
 * that of each client, 0 for as fast as it can. Prints `begun` when all have their first bytes, `unserved <why>` for one that
 * gets none, and `done <whole> <failed>` at the end. Ends when its input ends.
 */
import { get, type IncomingMessage } from 'node:http';

const [target = '', count = '1', rate = '0'] = process.argv.slice(2);
const urls = target.split(',');
const tickMs = 200;

let begun = 0;
let whole = 0;
let failed = 0;
const readers = new Set<(bytes: number) => void>();

function finish(): void {
  if (whole + failed < Number(count)) return;
  console.log(`done ${whole} ${failed}`);
  process.exit(0);
}

function pull(url: string): void {
  let isOver = false;
  const over = (isWhole: boolean) => {
    if (isOver) return;
    isOver = true;
    if (isWhole) whole += 1;
    else failed += 1;
    finish();
  };
  let isServed = false;
  const sent = get(url, { agent: false }, (response: IncomingMessage) => {
    isServed = true;
    begun += 1;
    if (begun === Number(count)) console.log('begun');
    let size = 0;
    response.on('error', () => over(false));
    response.on('close', () => over(size === Number(response.headers['content-length'])));
    if (Number(rate) === 0) {
      response.on('data', (part: Buffer) => {
        size += part.length;
      });
      return;
    }
    let allowed = 0;
    const take = (bytes: number) => {
      allowed = Math.min(allowed + bytes, Number(rate));
      while (allowed > 0) {
        const part = response.read() as Buffer | null;
        if (part === null) break;
        size += part.length;
        allowed -= part.length;
      }
    };
    readers.add(take);
    response.on('close', () => readers.delete(take));
  });
  sent.on('error', error => {
    // Nobody would wait for `begun` in vain.
    if (!isServed) console.log(`unserved ${error.message}`);
    over(false);
  });
}

for (let at = 0; at < Number(count); at += 1) pull(urls[at % urls.length] ?? '');
if (Number(rate) > 0) {
  setInterval(() => {
    for (const take of readers) take((Number(rate) * tickMs) / 1000);
  }, tickMs);
}
process.stdin.on('end', () => process.exit(0)).resume();
