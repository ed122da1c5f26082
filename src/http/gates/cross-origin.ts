import type { IncomingMessage } from 'node:http';
import type { Middleware } from 'koa';
import type { RequestState } from '../request-state.ts';

/** Rules for pages of other origins. */
export interface CrossOrigin {
  /** Returns true for a request that a page of a listed origin sent. */
  isAllowed(request: IncomingMessage): boolean;
  /** Allows browsers to pass the response to such a page, and answers their preflight requests. */
  readonly respond: Middleware<RequestState>;
}

// A browser repeats the preflight after this time. Most browsers do not cache a response for longer.
const keptSeconds = 7200;
const methods = 'GET, HEAD, POST, PUT, PATCH, DELETE';
const usualHeaders =
  'Accept, Accept-Version, Authorization, Content-Encoding, Content-Range, Content-Type, If-None-Match, If-Range, Range';
const shownHeaders = [
  ...['Accept-Ranges', 'Allow', 'Content-Disposition', 'Content-Length', 'Content-Range', 'Date'],
  ...['Docker-Content-Digest', 'Docker-Distribution-Api-Version', 'Docker-Upload-UUID', 'ETag'],
  ...['Link', 'Location', 'OCI-Filters-Applied', 'OCI-Subject', 'OCI-Tag', 'Range'],
  ...['RateLimit-Limit', 'RateLimit-Remaining', 'RateLimit-Reset', 'Retry-After'],
  ...['WWW-Authenticate', 'X-Request-Id'],
].join(', ');

/**
 * Creates the rules for pages of the given origins. Only pages of this server accept its cookie, and no response allows
 * credentials of the browser: a page of another origin sends its token itself.
 *
 * @param origins as browsers write them, `https://portal.example.org`; `*` for every page
 * Source: Fetch standard, HTTP extensions, CORS protocol.
 */
export function createCrossOrigin(origins: readonly string[]): CrossOrigin {
  const listed = new Set(origins);
  const allowsAll = listed.has('*');
  const isAllowed = ({ headers: { origin } }: IncomingMessage): boolean =>
    origin !== undefined && (allowsAll || listed.has(origin));

  return {
    isAllowed,
    async respond(ctx, next) {
      if (!allowsAll) ctx.vary('Origin');
      if (!isAllowed(ctx.req)) return next();
      ctx.set('access-control-allow-origin', allowsAll ? '*' : ctx.get('origin'));
      const isPreflight =
        ctx.method === 'OPTIONS' && ctx.get('access-control-request-method') !== '';
      if (!isPreflight) {
        ctx.set('access-control-expose-headers', shownHeaders);
        return next();
      }
      ctx.set({
        'access-control-allow-methods': methods,
        'access-control-allow-headers': usualHeaders,
        'access-control-max-age': String(keptSeconds),
      });
      ctx.status = 204;
    },
  };
}
