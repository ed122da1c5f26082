import type { Middleware } from 'koa';
import { Counter, collectDefaultMetrics, Histogram, type Registry } from 'prom-client';
import { withoutToken } from '../foundation/telemetry/index.ts';
import { traced, traceHeaders } from '../tracing/traces.ts';
import { type Observe, routeOf } from './errors/error-responses.ts';
import type { RequestState } from './request-state.ts';

// From a manifest in memory to a large blob over a slow connection.
const secondsBuckets = [0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10, 60, 300];

/** Creates the counters of finished requests and their times, in addition to the default metrics of the process. */
export function createObserver(registry: Registry): Observe {
  collectDefaultMetrics({ register: registry });
  const requests = new Counter({
    name: 'sluice_http_requests_total',
    help: 'Finished requests',
    labelNames: ['method', 'route', 'status'] as const,
    registers: [registry],
  });
  const seconds = new Histogram({
    name: 'sluice_http_request_seconds',
    help: 'Time from the head of a request to the last byte of its response',
    labelNames: ['route'] as const,
    buckets: secondsBuckets,
    registers: [registry],
  });
  return (method, route, status, duration) => {
    requests.inc({ method, route, status });
    seconds.observe({ route }, duration);
  };
}

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
