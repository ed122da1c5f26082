import { statusText } from '../../../buildkit/index.ts';
import type { LayerProgress } from '../../../conda/layers/package-layers.ts';

/**
 * Returns the lines of a log for the work on an environment, in the form in which BuildKit prints the progress of its
 * downloads: `download bwa-0.7.17-0 4.19MB / 12.50MB 0.5s`.
 */
export function progressLines({ parts, ...all }: LayerProgress): string[] {
  const { done, total, fetched, fetchedTotal } = all;
  const now = Date.now();
  return [
    ...parts.map(({ kind, name, bytes, totalBytes, tookMs, isDone }) =>
      statusText({
        // Names come from channels.
        id: `${kind} ${name.replace(/[^\x21-\x7e]+/g, '_')}`,
        ...{ current: bytes, total: totalBytes, startedMs: now - tookMs, timeMs: now },
        completedMs: isDone ? now : undefined,
      }),
    ),
    statusText({
      id: `${done} / ${total} packages`,
      ...{ current: fetched, total: fetchedTotal, timeMs: now },
      ...{ startedMs: undefined, completedMs: undefined },
    }),
  ];
}
