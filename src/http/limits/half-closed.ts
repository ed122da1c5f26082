import type { Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

// A client that disconnects and one that only stops sending look the same until the server sends bytes: a
// disconnected client rejects them. So while the server sends none, it keeps the connection only for this time.
const patienceMs = 2000;

/**
 * Answers a GET or HEAD after the client has closed its side of the connection. Some clients close it after their
 * only request (RFC 9293, 3.6). Other requests end when the client closes its side, as by default in Node.
 */
export function serveHalfClosed(server: Server): void {
  const responses = new WeakMap<Socket, ServerResponse>();
  // Node's types lack this option. Without it, the server closes its side at once.
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

/** Ends a connection on which the server sends nothing for a while, unless bytes wait for a slow client. */
function watch(socket: Socket): void {
  let sent = socket.bytesWritten;
  const timer = setInterval(() => {
    const isStill = socket.bytesWritten === sent && socket.writableLength === 0;
    if (isStill) socket.destroy();
    sent = socket.bytesWritten;
  }, patienceMs).unref();
  socket.once('close', () => clearInterval(timer));
}
