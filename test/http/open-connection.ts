import { connect, type Socket } from 'node:net';
import type { Sluice } from '../world/sluice.ts';

/** A connection to a server, of which the test sends and reads the bytes. */
export interface Open {
  readonly socket: Socket;
  /** What came so far. */
  text(): string;
  isClosed(): boolean;
}

/** Opens a connection and sends the text. */
export function open(sluice: Sluice, text: string, localAddress = '127.0.0.1'): Open {
  const socket = connect({ port: sluice.port, host: '127.0.0.1', localAddress });
  let received = '';
  let isClosed = false;
  socket.on('data', data => {
    received += data.toString('latin1');
  });
  socket.on('error', () => {});
  socket.on('close', () => {
    isClosed = true;
  });
  if (text !== '') socket.write(text);
  return { socket, text: () => received, isClosed: () => isClosed };
}
