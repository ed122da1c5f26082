import { Gauge, type Registry } from 'prom-client';

/** Connections to a database across the network. */
export interface ConnectionCounts {
  readonly busy: number;
  readonly idle: number;
  /** Work that waits for a connection. */
  readonly waiting: number;
}

/** Adds metrics of the connections to a database across the network. */
export function addDatabaseMetrics(
  registry: Registry,
  counts: () => ConnectionCounts | undefined,
): void {
  const registers = [registry];
  new Gauge({
    name: 'sluice_database_connections',
    help: 'Connections to the database now',
    labelNames: ['state'] as const,
    registers,
    collect() {
      const now = counts();
      if (!now) return;
      this.set({ state: 'busy' }, now.busy);
      this.set({ state: 'idle' }, now.idle);
    },
  });
  new Gauge({
    name: 'sluice_database_waiting',
    help: 'Reads and changes that wait for a connection to the database now',
    registers,
    collect() {
      const now = counts();
      if (now) this.set(now.waiting);
    },
  });
}
