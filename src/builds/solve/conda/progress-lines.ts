import { statusText } from '../../../buildkit/index.ts';
import type { LayerProgress, PartProgress } from '../../../conda/layers/package-layers.ts';

/**
 * Returns the lines of a log for the work on an environment, in the form in which BuildKit prints the progress of its
 * downloads: `download bwa-0.7.17-0 4.19MB / 12.50MB 0.5s`.
 */
export function progressLines({ parts, ...all }: LayerProgress): string[] {
  const { done, total, fetched, fetchedTotal } = all;
  return [
    ...parts.map(partLine),
    statusText({
      id: `${done} / ${total} packages`,
      ...{ current: fetched, total: fetchedTotal, timeMs: Date.now() },
      ...{ startedMs: undefined, completedMs: undefined },
    }),
  ];
}

/** How far a part of the work is. */
interface Part extends Omit<PartProgress, 'kind'> {
  readonly kind: PartProgress['kind'] | 'repodata';
}

/** Returns the line of a part: `repodata conda-forge/linux-64 4.19MB / 41.50MB 1.0s`. */
export function partLine({ kind, name, bytes, totalBytes, tookMs, isDone }: Part): string {
  const now = Date.now();
  return statusText({
    // Names come from channels.
    id: `${kind} ${name.replace(/[^\x21-\x7e]+/g, '_')}`,
    ...{ current: bytes, total: totalBytes, startedMs: now - tookMs, timeMs: now },
    completedMs: isDone ? now : undefined,
  });
}
