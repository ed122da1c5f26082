import { Counter, Gauge, Registry } from 'prom-client';
import type { RemoteHealth, RemoteState } from './remote-health.ts';

const each = ['kind', 'host'] as const;

/**
 * Returns metrics of other hosts, by host. They are apart from the other metrics, which anybody may read: names of
 * hosts are for operators. The number of hosts is bounded.
 */
export function createRemoteMetrics(health: Pick<RemoteHealth, 'list'>): Registry {
  const registry = new Registry();
  const registers = [registry];
  const labelsOf = ({ kind, name }: RemoteState) => ({ kind, host: name });
  new Counter({
    name: 'sluice_remote_requests_total',
    help: 'Requests to registries, builders and platforms, by host and result',
    labelNames: [...each, 'result'],
    registers,
    collect() {
      this.reset();
      for (const remote of health.list()) {
        const { successes, failures } = remote.total;
        this.inc({ ...labelsOf(remote), result: 'success' }, successes);
        this.inc({ ...labelsOf(remote), result: 'failure' }, failures);
      }
    },
  });
  new Gauge({
    name: 'sluice_remote_median_seconds',
    help: 'Median time until the response, in the last hour',
    labelNames: each,
    registers,
    collect() {
      this.reset();
      for (const remote of health.list()) {
        if (remote.medianMs !== undefined) this.set(labelsOf(remote), remote.medianMs / 1000);
      }
    },
  });
  new Gauge({
    name: 'sluice_remote_last_success_seconds',
    help: 'Time of the last success, in seconds since the epoch',
    labelNames: each,
    registers,
    collect() {
      this.reset();
      for (const remote of health.list()) {
        if (remote.succeededAt !== undefined) {
          this.set(labelsOf(remote), remote.succeededAt / 1000);
        }
      }
    },
  });
  return registry;
}
