import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { endWith, rawResponse } from '../../foundation/responses.ts';
import type { CurrentLeader } from './current-leader.ts';
import type { HandOn } from './hand-on.ts';

const refusal = 'The leading server of this site cannot be reached: try again in a moment';

/** Hands a WebSocket of a platform on to the replica that leads. It ends with that lead: the platform connects again. */
export function handOnUpgrade(
  leader: CurrentLeader,
  handOn: HandOn,
  request: IncomingMessage,
  socket: Duplex,
  head: Buffer,
): void {
  const refuse = () => endWith(socket, rawResponse(503, refusal, { 'retry-after': '5' }));
  const { address, signal } = leader;
  if (!address) {
    refuse();
    return;
  }
  const { upgrade = '' } = request.headers;
  const { out } = handOn.send(request, address, ['connection', 'upgrade', 'upgrade', upgrade]);
  const end = () => {
    out.destroy();
    socket.destroy();
  };
  signal.addEventListener('abort', end);
  socket.once('close', () => {
    signal.removeEventListener('abort', end);
    out.destroy();
  });
  out.on('error', refuse);
  out.once('response', response => {
    out.off('error', refuse);
    socket.write(headOf(response));
    response.on('error', end).pipe(socket);
  });
  out.once('upgrade', (response, peer, first) => {
    out.off('error', refuse);
    peer.on('error', end).once('close', end);
    socket.write(headOf(response));
    socket.write(first);
    peer.write(head);
    peer.pipe(socket);
    socket.pipe(peer);
  });
  out.end();
}

function headOf({ statusCode, statusMessage, rawHeaders }: IncomingMessage): string {
  const lines = rawHeaders.map((text, at) => (at % 2 === 0 ? `${text}: ` : `${text}\r\n`));
  return `HTTP/1.1 ${statusCode} ${statusMessage}\r\n${lines.join('')}\r\n`;
}
