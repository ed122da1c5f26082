import type { ReplacedImage } from '../options.ts';
import type { Progress } from './progress.ts';

/** Shows the names of the Dockerfile instead of those under which the builder pulls its images. */
export interface ShownNames {
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
