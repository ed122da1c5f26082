import type { ServerResponse } from 'node:http';

// Made once: each request ends with it, and it records the stack.
const disconnected = new DOMException('This operation was aborted', 'AbortError');

/** Returns a signal that aborts when the client has disconnected; also after the response, when nothing needs it. */
export function clientSignal(response: ServerResponse): AbortSignal {
  const gone = new AbortController();
  if (response.closed) gone.abort(disconnected);
  else response.once('close', () => gone.abort(disconnected));
  return gone.signal;
}
