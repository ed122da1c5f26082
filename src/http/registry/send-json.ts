import type { ServerResponse } from 'node:http';
import { apiVersionHeader } from './registry-headers.ts';

/** Sends a JSON value as a response below `/v2`. */
export function sendJson(
  response: ServerResponse,
  status: number,
  value: object,
  headers: Readonly<Record<string, string>> = {},
): void {
  const body = Buffer.from(JSON.stringify(value));
  response.writeHead(status, {
    ...apiVersionHeader,
    'content-type': 'application/json',
    ...headers,
    'content-length': String(body.length),
  });
  response.end(body);
}
