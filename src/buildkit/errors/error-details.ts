import { fromBinary } from '@bufbuild/protobuf';
import type { ServiceError } from '@grpc/grpc-js';
import { StatusSchema } from '../gen/google/rpc/status_pb.js';
import type { SourceLine } from './build-error.ts';

/** Details of an error in addition to its message. Builders before about 0.8 send none. */
export interface ErrorDetails {
  /** Exit code of the process of a RUN. */
  readonly exitCode: number | undefined;
  /** Digest of the step that failed. */
  readonly vertex: string | undefined;
  /** The place in the Dockerfile. */
  readonly source: SourceLine | undefined;
}

/** Reads the trailer `grpc-status-details-bin`: a google.rpc.Status whose details are JSON, not protobuf. */
export function errorDetails(error: ServiceError): ErrorDetails {
  const found: Record<'ExitMessage' | 'Vertex' | 'Source', unknown[]> = {
    ExitMessage: [],
    Vertex: [],
    Source: [],
  };
  for (const bytes of error.metadata?.get('grpc-status-details-bin') ?? []) {
    if (typeof bytes === 'string') continue;
    for (const { typeUrl, value } of detailsIn(bytes)) {
      const [, kind] = /\.(ExitMessage|Vertex|Source)\+json$/.exec(typeUrl) ?? [];
      if (kind !== undefined) found[kind as keyof typeof found].push(parsed(value));
    }
  }
  return {
    exitCode: numberIn(found.ExitMessage[0], 'Code'),
    vertex: textIn(found.Vertex[0], 'digest'),
    source: found.Source.map(sourceLine).find(source => source !== undefined),
  };
}

function detailsIn(bytes: Buffer): { typeUrl: string; value: Uint8Array }[] {
  try {
    return fromBinary(StatusSchema, bytes).details;
  } catch {
    return [];
  }
}

function parsed(value: Uint8Array): unknown {
  try {
    return JSON.parse(Buffer.from(value).toString());
  } catch {
    return undefined;
  }
}

function sourceLine(value: unknown): SourceLine | undefined {
  const info = memberOf(value, 'info');
  const file = textIn(info, 'filename');
  const ranges = memberOf(value, 'ranges');
  const lines = Array.isArray(ranges)
    ? ranges.map(range => numberIn(memberOf(range, 'start'), 'line') ?? 0)
    : [];
  const line = Math.min(...lines.filter(number => number > 0));
  if (file === undefined || !Number.isFinite(line)) return undefined;
  const text = Buffer.from(textIn(info, 'data') ?? '', 'base64')
    .toString()
    .split('\n')
    [line - 1]?.trim();
  return { file, line, ...(text ? { text } : {}) };
}

function memberOf(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null
    ? (value as Record<string, unknown>)[name]
    : undefined;
}

function textIn(value: unknown, name: string): string | undefined {
  const member = memberOf(value, name);
  return typeof member === 'string' ? member : undefined;
}

function numberIn(value: unknown, name: string): number | undefined {
  const member = memberOf(value, name);
  return typeof member === 'number' ? member : undefined;
}
