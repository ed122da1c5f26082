import { Readable } from 'node:stream';
import type { ParameterizedContext } from 'koa';

/**
 * Sends a value as the body of the response: texts, bytes and streams as they are, all others as JSON. Without a value, the
 * response is empty.
 *
 * Koa would also send objects as JSON. Before that, it asks whether each is a `Response`, and the first use of this name
 * loads Node's own client for HTTP: a tenth of the time until a server is ready.
 */
export function sendValue(ctx: ParameterizedContext, value: unknown): void {
  const isBody =
    typeof value === 'string' || value instanceof Uint8Array || value instanceof Readable;
  if (isBody || value == null) {
    ctx.body = value;
    return;
  }
  if (!/\bjson\b/i.test(ctx.type)) ctx.type = 'json';
  ctx.body = JSON.stringify(value);
}
