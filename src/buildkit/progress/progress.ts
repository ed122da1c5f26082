import type { Timestamp } from '@bufbuild/protobuf/wkt';
import type * as wire from '../gen/moby/buildkit/v1/status_pb.js';

/** Changes since the previous progress. All times are milliseconds since the epoch, with fractions. */
export interface Progress {
  readonly vertices: readonly Vertex[];
  readonly logs: readonly LogText[];
  readonly statuses: readonly Status[];
  readonly warnings: readonly Warning[];
}

/** A step. It may start and complete more than once, and its log may continue after it has completed. */
export interface Vertex {
  readonly digest: string;
  readonly name: string;
  readonly inputs: readonly string[];
  readonly startedMs: number | undefined;
  readonly completedMs: number | undefined;
  readonly cached: boolean;
  readonly error: string | undefined;
  /** Group of steps that are shown as one. */
  readonly group:
    | { readonly id: string; readonly name: string; readonly weak: boolean }
    | undefined;
}

/** A piece of a step's output. It may begin and end in the middle of a line. */
export interface LogText {
  /** Digest of the step. */
  readonly vertex: string;
  readonly stream: 'stdout' | 'stderr';
  readonly timeMs: number;
  readonly text: string;
}

/** Progress of a part of a step, such as one layer of a pull. */
export interface Status {
  readonly id: string;
  readonly vertex: string;
  readonly name: string;
  /** Bytes, or a count up to `total`. Both are 0 if unknown. */
  readonly current: number;
  readonly total: number;
  readonly timeMs: number;
  readonly startedMs: number | undefined;
  readonly completedMs: number | undefined;
}

/** A warning of the frontend about the Dockerfile. */
export interface Warning {
  readonly vertex: string;
  readonly level: number;
  readonly short: string;
  readonly detail: readonly string[];
  readonly url: string | undefined;
  /** Line of the Dockerfile, counted from 1. */
  readonly line: number | undefined;
}

/** Returns a function that converts the `Status` responses of one build, in their order, into plain values. */
export function progressDecoder(): (response: wire.StatusResponse) => Progress {
  // A character may be split between two messages.
  const decoders = new Map<string, InstanceType<typeof TextDecoder>>();
  const textOf = ({ vertex, stream, msg }: wire.VertexLog) => {
    const key = `${vertex} ${stream}`;
    const decoder = decoders.get(key) ?? new TextDecoder('utf-8', { ignoreBOM: true });
    decoders.set(key, decoder);
    return decoder.decode(msg, { stream: true });
  };
  return response => ({
    vertices: response.vertexes.map(vertexOf),
    logs: response.logs.map(log => ({
      vertex: log.vertex,
      stream: log.stream === 2n ? 'stderr' : 'stdout',
      timeMs: millisOf(log.timestamp) ?? 0,
      text: textOf(log),
    })),
    statuses: response.statuses.map(statusOf),
    warnings: response.warnings.map(warningOf),
  });
}

function vertexOf(vertex: wire.Vertex): Vertex {
  const { digest, name, inputs, cached, error, progressGroup: group } = vertex;
  return {
    digest,
    name,
    inputs,
    cached,
    error: error === '' ? undefined : error,
    startedMs: millisOf(vertex.started),
    completedMs: millisOf(vertex.completed),
    group: group && { id: group.id, name: group.name, weak: group.weak },
  };
}

function statusOf(status: wire.VertexStatus): Status {
  return {
    id: status.ID,
    vertex: status.vertex,
    name: status.name,
    current: Number(status.current),
    total: Number(status.total),
    timeMs: millisOf(status.timestamp) ?? 0,
    startedMs: millisOf(status.started),
    completedMs: millisOf(status.completed),
  };
}

function warningOf({ vertex, level, short, detail, url, ranges }: wire.VertexWarning): Warning {
  const text = (bytes: Uint8Array) => Buffer.from(bytes).toString();
  return {
    vertex,
    level: Number(level),
    short: text(short),
    detail: detail.map(text),
    url: url === '' ? undefined : url,
    line: ranges[0]?.start?.line,
  };
}

function millisOf(time: Timestamp | undefined): number | undefined {
  return time && Number(time.seconds) * 1000 + time.nanos / 1e6;
}

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
    const lineOf = (line: string): Line => ({ stream, timeMs, text: cutLine(line) });
    const whole = lines.slice(-keptLines).map(line => lineOf(line.replace(/\r$/, '')));
    streams.set(stream, {
      whole: [...(before?.whole ?? []), ...whole].slice(-keptLines),
      partial: last === '' ? undefined : lineOf(last),
    });
  }
}

function cutLine(line: string): string {
  return line.length > keptLineChars ? `${line.slice(0, keptLineChars)}…` : line;
}
