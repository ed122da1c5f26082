/** Logs and metrics of a server; it loads pino and prom-client. */

export {
  createLogger,
  createMetricsRegistry,
  createRequestIds,
  type Logger,
  withoutToken,
} from '../telemetry.ts';
export { createBlobMetrics, type NoteBlob } from './blob-metrics.ts';
export {
  addDatabaseMetrics,
  addReadReplicaMetrics,
  type ConnectionCounts,
  type ReadReplicaState,
} from './database-metrics.ts';
export {
  addDiskMetrics,
  type DiskContent,
  type DiskFigure,
  type DiskUse,
  diskContents,
} from './disk-figures.ts';
export { addLeadMetric } from './lead-metric.ts';
export { type LogDestination, openLogDestination } from './log-destination.ts';
export { createMessageMetrics } from './message-metrics.ts';
export {
  createRemoteHealth,
  noRemoteHealth,
  type RemoteHealth,
  type RemoteKind,
  type RemoteState,
} from './remote-health.ts';
export { createRemoteMetrics } from './remote-metrics.ts';
export { addLoadMetric, withMetrics } from './tally-metrics.ts';
export { createWorkMetrics, type NoteWork } from './work-metrics.ts';
