import type { Logger } from '../../foundation/telemetry.ts';
import { readVersion } from '../../foundation/version.ts';
import { type Tracing, useTracing } from '../../tracing/traces.ts';
import type { Config } from '../config/settings-schema.ts';

// The last spans of a server that stops.
const sendMs = 2000;

let tracing: Tracing | undefined;

/** Begins to record traces, if the configuration names a collector. */
export async function openTracing({ traces }: Pick<Config, 'traces'>, log: Logger): Promise<void> {
  const { endpoint, share } = traces;
  if (endpoint === undefined) return;
  // A server without a collector does not load the SDK.
  const { startTracing } = await import('../../tracing/open-telemetry.ts');
  tracing = startTracing({
    ...{ endpoint: new URL(endpoint), share, version: readVersion().version },
    onFailure: err => log.warn({ err }, 'traces cannot be sent to the collector'),
  });
  useTracing(tracing);
}

/** Sends the recorded traces. */
export async function closeTracing(): Promise<void> {
  useTracing(undefined);
  await tracing?.close(sendMs);
}
