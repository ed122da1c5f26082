import { Gauge, type Registry } from 'prom-client';

/** Connections to a database across the network. */
export interface ConnectionCounts {
  readonly busy: number;
  readonly idle: number;
  /** Work that waits for a connection. */
  readonly waiting: number;
}

/** How a read replica of the database is used. */
export interface ReadReplicaState {
  readonly isUsed: boolean;
  /** The oldest that its rows may be now (ms); undefined while it is too far behind, or does not answer. */
  readonly ageMs: number | undefined;
}

/** Adds metrics of a read replica. They have no values while `stateOf` returns undefined. */
export function addReadReplicaMetrics(
  registry: Registry,
  stateOf: () => ReadReplicaState | undefined,
): void {
  const registers = [registry];
  new Gauge({
    name: 'sluice_read_replica_used',
    help: '1 while the read replica of the database answers lists and figures, 0 while the primary does',
    registers,
    collect() {
      const state = stateOf();
      if (state) this.set(state.isUsed ? 1 : 0);
      else this.remove();
    },
  });
  new Gauge({
    name: 'sluice_read_replica_age_seconds',
    help: 'How old what the read replica answers may be, at most; +Inf while it is not used',
    registers,
    collect() {
      const state = stateOf();
      if (state) this.set((state.ageMs ?? Number.POSITIVE_INFINITY) / 1000);
      else this.remove();
    },
  });
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
