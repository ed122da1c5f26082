import { Gauge, type Registry } from 'prom-client';

/** Adds the metric that says which replica of a site leads. */
export function addLeadMetric(registry: Registry, leads: boolean): void {
  new Gauge({
    name: 'sluice_replica_leads',
    help: '1 for the only server of a site, or the replica that leads, 0 for those that hand requests on to it',
    registers: [registry],
  }).set(leads ? 1 : 0);
}
