import { randomInt } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';

const lowest = 10_000;

/**
 * A port of 127.0.0.1 that nothing listens on at the moment, and none of those that the system gives to
 * connections: what listens there may stop, and find it free when it starts again. Another process may
 * still take it first, so it is only for programs that cannot choose a port themselves, or need the same
 * one again.
 */
export async function freePort(): Promise<number> {
  const end = firstOfConnections();
  while (true) {
    const port = randomInt(lowest, end);
    if (await isFree(port)) return port;
  }
}

function firstOfConnections(): number {
  const [first] = readFileSync('/proc/sys/net/ipv4/ip_local_port_range', 'utf8').split(/\s/);
  // Where connections may have nearly all of them, one is as good as another.
  return Number(first) > lowest + 1000 ? Number(first) : 65_536;
}

function isFree(port: number): Promise<boolean> {
  return new Promise(resolve => {
    const server = createServer();
    server.on('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });
}
