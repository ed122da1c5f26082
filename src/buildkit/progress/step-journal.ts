import type { LogText, Progress, Vertex, Warning } from './progress.ts';

const keptLines = 20;
// Longer lines are cut: a RUN may write a whole file as one line.
const keptLineChars = 2000;
// The builder reads the two streams separately, so lines within this time before the end have no reliable order.
const burstMs = 100;

type Stream = LogText['stream'];

interface Line {
  readonly stream: Stream;
  readonly timeMs: number;
  readonly text: string;
}

/** The last output of a step on one stream. */
interface Tail {
  readonly whole: readonly Line[];
  /** The last output without a line end. */
  readonly partial: Line | undefined;
}

/** Records a build's progress, for its result and for the explanation of a failure. */
export class Journal {
  readonly warnings: Warning[] = [];
  readonly #vertices = new Map<string, Vertex>();
  /** Tails by the digest of the step. */
  readonly #tails = new Map<string, Map<Stream, Tail>>();

  add({ vertices, logs, warnings }: Progress): void {
    for (const vertex of vertices) this.#vertices.set(vertex.digest, vertex);
    this.warnings.push(...warnings);
    for (const log of logs) this.#addLog(log);
  }

  /** Counts the numbered steps of the Dockerfile that were reached, and those that came from the cache. */
  get steps(): { total: number; cached: number } {
    const steps = [...this.#vertices.values()].filter(({ name }) =>
      /^\[[^\]]*\d\/\d{1,9}\]/.test(name),
    );
    return { total: steps.length, cached: steps.filter(({ cached }) => cached).length };
  }

  vertex(digest: string): Vertex | undefined {
    return this.#vertices.get(digest);
  }

  /** Returns the step that caused the failure, not one that was cancelled because of it. */
  failed(): Vertex | undefined {
    const failed = [...this.#vertices.values()].filter(({ error }) => error !== undefined);
    return failed.find(({ error = '' }) => !/context canceled/.test(error)) ?? failed[0];
  }

  /**
   * Returns the last lines of a step, complete or not, oldest first. Among the lines written just before the end, those
   * on standard error come last, because programs report the cause of a failure there.
   */
  lastLines(digest: string): string[] {
    const tails = [...(this.#tails.get(digest)?.values() ?? [])];
    const lines = tails.flatMap(({ whole, partial }) => (partial ? [...whole, partial] : whole));
    const atEnd = Math.max(...lines.map(({ timeMs }) => timeMs)) - burstMs;
    const rank = ({ stream, timeMs }: Line) =>
      timeMs < atEnd ? timeMs : stream === 'stdout' ? atEnd : Number.POSITIVE_INFINITY;
    const ranked = lines.map(line => ({ text: line.text, rank: rank(line) }));
    ranked.sort((one, other) => (one.rank === other.rank ? 0 : one.rank - other.rank));
    return ranked.slice(-keptLines).map(({ text }) => text);
  }

  #addLog({ vertex, stream, text, timeMs }: LogText): void {
    const streams = this.#tails.get(vertex) ?? new Map<Stream, Tail>();
    this.#tails.set(vertex, streams);
    const before = streams.get(stream);
    const lines = ((before?.partial?.text ?? '') + text).split('\n');
    const last = lines.pop() ?? '';
    const lineOf = (line: string): Line => ({ stream, timeMs, text: cut(line) });
    const whole = lines.slice(-keptLines).map(line => lineOf(line.replace(/\r$/, '')));
    streams.set(stream, {
      whole: [...(before?.whole ?? []), ...whole].slice(-keptLines),
      partial: last === '' ? undefined : lineOf(last),
    });
  }
}

function cut(line: string): string {
  return line.length > keptLineChars ? `${line.slice(0, keptLineChars)}…` : line;
}
