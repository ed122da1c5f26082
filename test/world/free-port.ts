import { randomInt } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';

const lowest = 10_000;

/**
 * Returns a port of 127.0.0.1 without a listener, outside the range that the system gives to connections: a program may
 * stop and find it free when it starts again.
 * Another process may still use it first, so it is only for programs that cannot choose a port themselves, or need the
 * same one again.
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
  // If connections may have nearly all ports, any port will do.
  return Number(first) > lowest + 1000 ? Number(first) : 65_536;
}

function isFree(port: number): Promise<boolean> {
  return new Promise(resolve => {
    const server = createServer();
    server.on('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });
}
