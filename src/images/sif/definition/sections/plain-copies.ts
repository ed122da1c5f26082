import { posix } from 'node:path';
import type { FileCopies } from './files.ts';

/** Copies of files that need no program in the image. */
export interface PlainCopies {
  /** Stages that fail unless the sources in earlier stages are files, and give these the modes of copies. */
  readonly stages: readonly (readonly string[])[];
  readonly instructions: readonly string[];
  /** Sources in the build context that must be files, with their lines in the definition file. */
  readonly files: readonly (readonly [path: string, line: number])[];
}

/**
 * Returns COPY instructions for an image without a shell. COPY and `cp -fLr` copy a file to the same place, whether
 * the target is a directory or not; a directory they may merge or nest. Returns undefined for patterns.
 *
 * @param called returns a name for a stage
 */
export function plainCopies(
  sections: readonly FileCopies[],
  called: (part: string) => string,
): PlainCopies | undefined {
  const lines = sections.flatMap(section => section.lines);
  if (lines.some(({ source }) => /[*?[]/.test(source))) return undefined;
  const stages: (readonly string[])[] = [];
  const instructions = sections.flatMap(({ from, root, lines }, position) => {
    const checked = called(`files-${position + 1}`);
    if (from !== undefined) {
      const sources = lines.flatMap(({ line, source }) => [String(line), source]);
      const run = JSON.stringify(['/bin/sh', '-c', check, 'sh', ...sources]);
      stages.push([`FROM ${from} AS ${checked}`, 'USER 0', `RUN ${run}`]);
    }
    const flags = from === undefined ? '' : `--from=${checked} `;
    return lines.map(({ source, target = posix.join(root, source) }) => {
      return `COPY ${flags}${JSON.stringify([source, target])}`;
    });
  });
  const files = sections
    .filter(({ from }) => from === undefined)
    .flatMap(section => section.lines)
    .map(({ source, line }) => [posix.normalize(source), line] as const);
  return { stages, instructions, files };
}

const check = `while [ $# -gt 0 ]; do
    [ -f "$2" ] || { echo "line $1: '$2' is not a file, and the base image has no /bin/sh to copy anything else" >&2; exit 1; }
    chmod ug-s,o-wt "$2" || exit 1
    shift 2
done`;
