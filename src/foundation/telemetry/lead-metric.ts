import { Gauge, type Registry } from 'prom-client';

/**
 * Adds the metric that says which replica of a site leads.
 *
 * @param leads is asked each time the metric is read: a leader without its database does not lead
 */
export function addLeadMetric(registry: Registry, leads: () => boolean): void {
  new Gauge({
    name: 'sluice_replica_leads',
    help: '1 for the only server of a site, or the replica that leads; 0 for replicas that hand requests on to it, and while the leader does not have the lock of PostgreSQL',
    registers: [registry],
    collect() {
      this.set(leads() ? 1 : 0);
    },
  });
}
