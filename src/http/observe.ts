import { Counter, collectDefaultMetrics, Histogram, type Registry } from 'prom-client';
import type { Observe } from './errors/error-responses.ts';

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
    help: 'Time from the head of a request to the last byte of its answer',
    labelNames: ['route'] as const,
    buckets: secondsBuckets,
    registers: [registry],
  });
  return (method, route, status, duration) => {
    requests.inc({ method, route, status });
    seconds.observe({ route }, duration);
  };
}
