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
      timeMs: millis(log.timestamp) ?? 0,
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
    startedMs: millis(vertex.started),
    completedMs: millis(vertex.completed),
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
    timeMs: millis(status.timestamp) ?? 0,
    startedMs: millis(status.started),
    completedMs: millis(status.completed),
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

function millis(time: Timestamp | undefined): number | undefined {
  return time && Number(time.seconds) * 1000 + time.nanos / 1e6;
}
