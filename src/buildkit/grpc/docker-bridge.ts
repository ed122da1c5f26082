import { mkdtempSync, rmSync } from 'node:fs';
import { request } from 'node:http';
import { createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A local socket. Each connection to it becomes a connection to the builder inside a Docker engine. */
export interface DockerBridge {
  readonly path: string;
  /** Settles when the socket accepts connections. Rejects with the error of the socket. */
  readonly ready: Promise<void>;
  close(): void;
}

/**
 * Opens the bridge to the engine at `dockerSocket`. The engine connects the caller to its builder after `POST /grpc`
 * with `Upgrade: h2c`; gRPC clients cannot send that request.
 */
export function openDockerBridge(dockerSocket: string): DockerBridge {
  // A private directory, because access to this socket gives the same rights as access to the engine.
  const directory = mkdtempSync(join(tmpdir(), 'buildkit-bridge-'));
  const path = join(directory, 'grpc.sock');
  const sockets = new Set<Socket>();
  const keep = (socket: Socket) => {
    sockets.add(socket);
    socket.on('error', () => socket.destroy());
    socket.on('close', () => sockets.delete(socket));
  };
  const server = createServer({ allowHalfOpen: true }, near => {
    keep(near);
    near.pause();
    const upgrade = request({
      socketPath: dockerSocket,
      method: 'POST',
      path: '/grpc',
      headers: { host: 'docker', connection: 'Upgrade', upgrade: 'h2c' },
    });
    upgrade.on('upgrade', (_response, far: Socket, head) => {
      keep(far);
      if (head.length > 0) near.write(head);
      near.pipe(far).pipe(near);
      near.on('close', () => far.destroy());
      far.on('close', () => near.destroy());
    });
    upgrade.on('response', () => near.destroy());
    upgrade.on('error', () => near.destroy());
    upgrade.end();
  });
  const ready = new Promise<void>((resolve, reject) => {
    server.on('error', reject);
    server.listen(path, resolve);
  });
  // An idle bridge does not keep the process alive. Its connections do, like any connection.
  server.unref();
  return {
    path,
    ready,
    close() {
      server.close();
      for (const socket of sockets) socket.destroy();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}
