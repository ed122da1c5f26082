import { createServer } from 'node:net';

/**
 * A port of 127.0.0.1 that nothing listens on at the moment. Another process may take it first, so
 * it is only for programs that cannot choose a port themselves.
 */
export function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.on('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const address = server.address();
      server.close(() => {
        if (address !== null && typeof address === 'object') resolve(address.port);
        else reject(new Error('The server has no port'));
      });
    });
  });
}
