import type { Middleware } from 'koa';
import { withoutToken } from '../../foundation/telemetry/index.ts';
import { traced, traceHeaders } from '../../tracing/traces.ts';
import { routeOf } from '../errors/error-responses.ts';
import type { RequestState } from '../request-state.ts';

/**
 * Records each request as a span, from its head to the end of its response. The request then names this span, for its
 * log line and for the server that it may be handed on to. Without tracing, this step is left out. Source: semantic
 * conventions of OpenTelemetry for HTTP servers.
 */
export const traceRequests: Middleware<RequestState> = async (ctx, next) => {
  const { req, res, method } = ctx;
  await traced(method, { kind: 'server', from: req.headers }, async span => {
    Object.assign(req.headers, traceHeaders());
    await next();
    const { path } = ctx;
    const route = routeOf(path, ctx.state);
    span.rename(`${method} ${route}`);
    span.set({
      'http.request.method': method,
      'http.route': route,
      'http.response.status_code': res.statusCode,
      'url.path': withoutToken(path),
    });
    if (res.statusCode >= 500 || (res.closed && !res.writableFinished)) span.fail();
  });
};
