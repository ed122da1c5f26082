import type { Client } from '@grpc/grpc-js';
import { Control } from './gen/moby/buildkit/v1/control_pb.js';
import { callServerStream } from './grpc/channel.ts';
import type { ReplacedImage } from './options.ts';
import { type Progress, progressDecoder } from './progress/progress.ts';

/** Watches the progress of one build. */
interface StatusWatch {
  /**
   * Settles when the progress is complete: the builder has ended it, or has been silent for a while. Call it when the
   * build has ended, whether it succeeded or failed.
   */
  drained(): Promise<void>;
}

// Go's client waits for the same time.
const silenceMs = 5_000;
// A build that failed before it started has no progress. The builder is slow to report that.
const noProgressMs = 300;

/** Watches the build `ref`, which may not have started yet. A watch that fails counts as ended. */
export function watchStatus(
  client: Client,
  ref: string,
  onProgress: (progress: Progress) => void,
): StatusWatch {
  const decode = progressDecoder();
  const call = callServerStream(client, Control.method.status, { Ref: ref });
  const ended = Promise.withResolvers<void>();
  let hasBegun = false;
  let silence: NodeJS.Timeout | undefined;
  call.on('data', response => {
    hasBegun = true;
    silence?.refresh();
    try {
      onProgress(decode(response));
    } catch {
      // The builder's message is invalid. An error thrown here would end the process.
      call.cancel();
    }
  });
  call.on('error', () => ended.resolve());
  call.on('end', () => ended.resolve());
  return {
    async drained() {
      silence = setTimeout(() => call.cancel(), hasBegun ? silenceMs : noProgressMs);
      await ended.promise;
      clearTimeout(silence);
    },
  };
}

/** Shows the names of the Dockerfile instead of those under which the builder pulls its images. */
interface ShownNames {
  text(text: string): string;
  progress(progress: Progress): Progress;
}

export function shownNames(images: Readonly<Record<string, ReplacedImage>> = {}): ShownNames {
  const names = Object.entries(images).flatMap(([name, { pulled, shown = name }]) => [
    [pulled, shown] as const,
    // Messages of registries have the repository in a path.
    [repositoryIn(pulled), name] as const,
  ]);
  const text = (given: string) =>
    names.reduce((rest, [pulled, shown]) => rest.replaceAll(pulled, () => shown), given);
  if (names.length === 0) return { text, progress: progress => progress };
  return {
    text,
    progress: progress => ({
      ...progress,
      vertices: progress.vertices.map(vertex => ({
        ...vertex,
        name: text(vertex.name),
        error: vertex.error && text(vertex.error),
        group: vertex.group && { ...vertex.group, name: text(vertex.group.name) },
      })),
      statuses: progress.statuses.map(status => ({
        ...status,
        id: text(status.id),
        name: text(status.name),
      })),
    }),
  };
}

function repositoryIn(name: string): string {
  const [place = ''] = name.split('@', 1);
  const path = place.slice(place.indexOf('/') + 1);
  const tag = path.indexOf(':', path.lastIndexOf('/'));
  return tag < 0 ? path : path.slice(0, tag);
}
