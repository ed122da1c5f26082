import { join } from 'node:path';
import { sendUnsent, unsentIn } from '../../builds/logs/archive/unsent-logs.ts';
import { isDirectory, openNamedObjects } from '../../storage/site-content.ts';
import type { UpstreamDeps } from '../assembly/upstream-clients.ts';

/**
 * Sends the logs of builds that this replica ended while it led, and that the object store did not take before it was
 * killed: nobody else has them, whoever leads now.
 */
export async function sendLeftLogs(
  { config, log, proxyFor }: UpstreamDeps,
  signal: AbortSignal,
): Promise<void> {
  const directory = join(config.data, 'logs/builds');
  if (isDirectory(config) || (await unsentIn(directory)).length === 0) return;
  const archive = await openNamedObjects({ ...config, proxyFor }, 'logs/builds');
  try {
    const onError = (err: unknown) =>
      log.warn({ err }, 'logs of ended builds cannot be sent to the object store: trying again');
    await sendUnsent(directory, archive, onError, signal);
  } finally {
    archive.close();
  }
}
