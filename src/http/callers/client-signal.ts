import type { ServerResponse } from 'node:http';

/** Returns a signal that aborts when the client has disconnected; also after the response, when nothing needs it. */
export function clientSignal(response: ServerResponse): AbortSignal {
  const gone = new AbortController();
  if (response.closed) gone.abort();
  else response.once('close', () => gone.abort());
  return gone.signal;
}
