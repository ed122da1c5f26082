import type { Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

// A client that has gone says the same as one that only stops sending. The bytes of an answer tell them apart: who
// has gone refuses them. So while none are sent, the connection stays for a little while only.
const patienceMs = 2000;

/**
 * Lets a client have the answer to its GET after it has closed its own side of the connection, as some do that
 * send one request (RFC 9293, 3.6). Other requests end with the client's side, as is usual for Node.
 */
export function serveHalfClosed(server: Server): void {
  const responses = new WeakMap<Socket, ServerResponse>();
  // Not in Node's types: without it the server ends its side at once.
  Object.assign(server, { httpAllowHalfOpen: true });
  server.on('request', (request, response) => responses.set(request.socket, response));
  server.on('connection', (socket: Socket) => {
    socket.on('end', () => {
      const response = responses.get(socket);
      const isReading = response?.req.method === 'GET' || response?.req.method === 'HEAD';
      if (response && isReading && !response.writableFinished) watch(socket);
      else socket.end();
    });
  });
}

/** Ends a connection that nothing was sent on for a while, unless the client is slow to take what there is. */
function watch(socket: Socket): void {
  let sent = socket.bytesWritten;
  const timer = setInterval(() => {
    const isStill = socket.bytesWritten === sent && socket.writableLength === 0;
    if (isStill) socket.destroy();
    sent = socket.bytesWritten;
  }, patienceMs).unref();
  socket.once('close', () => clearInterval(timer));
}
