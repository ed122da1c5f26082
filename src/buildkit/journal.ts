import type { LogText, Progress, Vertex, Warning } from './progress.ts';

const keptLines = 20;
// Longer ones are cut: a RUN may write a whole file as one line.
const keptLineChars = 2000;

/** What a build was seen to do: needed for its result, and for telling why it failed. */
export class Journal {
  readonly warnings: Warning[] = [];
  readonly #vertices = new Map<string, Vertex>();
  /** The last whole lines of each step. */
  readonly #tails = new Map<string, string[]>();
  /** What a step wrote last without ending the line, by its digest and stream. */
  readonly #partialLines = new Map<string, Map<LogText['stream'], string>>();

  add({ vertices, logs, warnings }: Progress): void {
    for (const vertex of vertices) this.#vertices.set(vertex.digest, vertex);
    this.warnings.push(...warnings);
    for (const log of logs) this.#addLog(log);
  }

  /** Numbered steps of the Dockerfile that were reached, and how many of them needed no work. */
  get steps(): { total: number; cached: number } {
    const steps = [...this.#vertices.values()].filter(({ name }) =>
      /^\[[^\]]*\d+\/\d+\]/.test(name),
    );
    return { total: steps.length, cached: steps.filter(({ cached }) => cached).length };
  }

  vertex(digest: string): Vertex | undefined {
    return this.#vertices.get(digest);
  }

  /** The step that failed by itself, and not because another did. */
  failed(): Vertex | undefined {
    const failed = [...this.#vertices.values()].filter(({ error }) => error !== undefined);
    return failed.find(({ error = '' }) => !/context canceled/.test(error)) ?? failed[0];
  }

  /** The last lines that a step wrote, oldest first, whole or not. */
  lastLines(digest: string): string[] {
    const partial = this.#partialLines.get(digest)?.values() ?? [];
    return [...(this.#tails.get(digest) ?? []), ...partial].slice(-keptLines);
  }

  #addLog({ vertex, stream, text }: LogText): void {
    const partial = this.#partialLines.get(vertex) ?? new Map<LogText['stream'], string>();
    this.#partialLines.set(vertex, partial);
    const lines = ((partial.get(stream) ?? '') + text).split('\n');
    const last = lines.pop() ?? '';
    if (last === '') partial.delete(stream);
    else partial.set(stream, cut(last));
    const whole = lines.slice(-keptLines).map(line => cut(line.replace(/\r$/, '')));
    this.#tails.set(vertex, [...(this.#tails.get(vertex) ?? []), ...whole].slice(-keptLines));
  }
}

function cut(line: string): string {
  return line.length > keptLineChars ? `${line.slice(0, keptLineChars)}…` : line;
}
