import { stripVTControlCharacters } from 'node:util';
import { fromBinary } from '@bufbuild/protobuf';
import { type ServiceError, status } from '@grpc/grpc-js';
import { StatusSchema } from '../gen/google/rpc/status_pb.js';
import type { Journal } from '../progress/progress.ts';
import type { SecretMask } from '../progress/secret-mask.ts';
import { BuildError, type BuildErrorKind, type SourceLine } from './build-error.ts';

/** Returns the error of a call other than a build. Returns an error that is not gRPC's unchanged. */
export function failureOfCall(error: unknown, address: string): unknown {
  if (!isServiceError(error)) return error;
  const kind = isAway(error) ? 'unavailable' : 'other';
  const message =
    kind === 'other' ? `The builder at ${address}: ${error.details}` : awayText(address, error);
  return new BuildError(kind, message, { cause: error });
}

/** Returns the error of a build that failed. Recognises the messages of BuildKit 0.8 to 0.32. */
export function failureOfBuild(
  error: ServiceError,
  address: string,
  journal: Journal,
  mask: SecretMask,
): BuildError {
  if (isAway(error)) {
    return new BuildError('unavailable', awayText(address, error));
  }
  const details = errorDetails(error);
  // Masked first: a part of a secret is not recognised.
  const message = shortMessage(mask.apply(error.details));
  const plain = shortMessage(error.details);
  const vertex =
    (details.vertex === undefined ? undefined : journal.vertex(details.vertex)) ?? journal.failed();
  const step = vertex && mask.apply(vertex.name);
  const kind = kindOf(plain, details, step ?? '');
  const source = details.source ?? sourceIn(plain);
  return new BuildError(kind, message, {
    exitCode: kind === 'exec' ? (details.exitCode ?? exitCodeIn(plain)) : undefined,
    step,
    source: source && { ...source, ...(source.text ? { text: mask.apply(source.text) } : {}) },
    lastLogLines: vertex ? journal.lastLines(vertex.digest).map(line => shownLine(line, mask)) : [],
  });
}

/**
 * Returns a line as a terminal shows it: without colours, and with only the last text of an overwritten line. Masks it
 * before and after that: a colour within a secret hides the secret from the mask.
 */
function shownLine(line: string, mask: SecretMask): string {
  const shown = stripVTControlCharacters(mask.apply(line))
    .replace(/^.*\r(?=.)/s, '')
    .replace(/[^\P{Cc}\t]/gu, '');
  return mask.apply(shown).replace(/\t/g, ' ');
}

/** Characters of a message, which may contain a whole script of the Dockerfile. */
const longestMessage = 8192;

function shortMessage(message: string): string {
  if (message.length <= longestMessage) return message;
  const half = longestMessage / 2;
  return `${message.slice(0, half)} ... ${message.slice(-half)}`;
}

/** True for an error of a grpc-js call. */
export function isServiceError(error: unknown): error is ServiceError {
  return error instanceof Error && 'code' in error && 'details' in error;
}

/** True if the cause is the builder or the connection to it, not the request. */
function isAway({ code, details }: Pick<ServiceError, 'code' | 'details'>): boolean {
  if (code === status.UNAVAILABLE || code === status.CANCELLED) return true;
  if (isCutOff({ code, details })) return true;
  return code === status.RESOURCE_EXHAUSTED && /too_many_pings|ENHANCE_YOUR_CALM/i.test(details);
}

/** True if the connection ended in the middle of the response. grpc-js reports that as a failure of the other side. */
export function isCutOff({ code, details }: Pick<ServiceError, 'code' | 'details'>): boolean {
  return code === status.INTERNAL && details.includes('Call ended without gRPC status');
}

/** Returns the message for a builder that is away, with the reason alone; grpc-js adds many details around it. */
export function awayText(address: string, { details }: Pick<ServiceError, 'details'>): string {
  return `The builder at ${address} is unavailable: ${lastErrorIn(details)}`;
}

function lastErrorIn(details: string): string {
  const [before, after] = ['Last error: ', '. Resolution note:'];
  const start = details.indexOf(before);
  const end = details.indexOf(after, start);
  if (start < 0 || end < 0) return details;
  return details
    .slice(start + before.length, end)
    .replace(/^Error: /, '')
    .replace(/\(\d{4}-[^()]*\)$/, '')
    .trimEnd();
}

function kindOf(message: string, details: ErrorDetails, step: string) {
  const rules: [boolean, BuildErrorKind][] = [
    [details.exitCode !== undefined || exitCodeIn(message) !== undefined, 'exec'],
    [/no active session/.test(message), 'session'],
    [/failed to push|\bpushing\b/.test(message) || /^(exporting|pushing)\b/.test(step), 'push'],
    [/\bsecret \S+: not found|There is no SSH agent '/.test(message), 'other'],
    [/dockerfile parse error/.test(message), 'dockerfile'],
    [isOfBase(message, step), 'base'],
    [details.source !== undefined || isOfDockerfile(message, step), 'dockerfile'],
  ];
  return rules.find(([holds]) => holds)?.[1] ?? 'other';
}

function isOfBase(message: string, step: string): boolean {
  return (
    /failed to resolve source metadata for|pull access denied/.test(message) ||
    // Before 0.13: `docker.io/library/x:1: not found`, or the response of the registry.
    /: failed to (do request|authorize|resolve reference)|failed to copy: httpReadSeeker/.test(
      message,
    ) ||
    /^\[[^\]]*\] FROM |load metadata for /.test(step)
  );
}

function isOfDockerfile(message: string, step: string): boolean {
  return (
    /failed to (compute cache key|calculate checksum|read dockerfile)/.test(message) ||
    /Dockerfile cannot be empty|target stage .* could not be found/.test(message) ||
    // The step requests something that is not allowed in this build, or that is invalid.
    /failed to (load LLB|create LLB definition)/.test(message) ||
    (/^\[[^\]]*\] (ADD|COPY) /.test(step) && !/no space left/.test(message))
  );
}

function exitCodeIn(message: string): number | undefined {
  const [, code] =
    /(?:did not complete successfully|executor failed running .*): exit code: (\d+)/s.exec(
      message,
    ) ?? [];
  return code === undefined ? undefined : Number(code);
}

/** Returns the line that the message names. Some frontends report it only there. */
function sourceIn(message: string): { file: string; line: number; text?: string } | undefined {
  const [, line] = /dockerfile parse error (?:on )?line (\d+)/i.exec(message) ?? [];
  return line === undefined ? undefined : { file: 'Dockerfile', line: Number(line) };
}

/** Details of an error in addition to its message. Builders before about 0.8 send none. */
interface ErrorDetails {
  /** Exit code of the process of a RUN. */
  readonly exitCode: number | undefined;
  /** Digest of the step that failed. */
  readonly vertex: string | undefined;
  /** The place in the Dockerfile. */
  readonly source: SourceLine | undefined;
}

/** Reads the trailer `grpc-status-details-bin`: a google.rpc.Status whose details are JSON, not protobuf. */
function errorDetails(error: ServiceError): ErrorDetails {
  const found: Record<'ExitMessage' | 'Vertex' | 'Source', unknown[]> = {
    ExitMessage: [],
    Vertex: [],
    Source: [],
  };
  for (const bytes of error.metadata?.get('grpc-status-details-bin') ?? []) {
    if (typeof bytes === 'string') continue;
    for (const { typeUrl, value } of detailsIn(bytes)) {
      const [, kind] = /\.(ExitMessage|Vertex|Source)\+json$/.exec(typeUrl) ?? [];
      if (kind !== undefined) found[kind as keyof typeof found].push(parsedJson(value));
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

function parsedJson(value: Uint8Array): unknown {
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

/** Error messages for the caller whose operation is stopped. */
interface StopMessages {
  readonly cancelled: string;
  readonly timeout: string;
}

/**
 * Records why an operation ends early; the first reason counts. Removes its listeners from signals that live longer;
 * `AbortSignal.any` keeps them for a while.
 */
export class Stop implements Disposable {
  readonly #controller = new AbortController();
  readonly #signals: readonly AbortSignal[];
  readonly #timer: NodeJS.Timeout | undefined;
  readonly #cancel: () => void;

  /** Stops when a signal is aborted (kind `cancelled`) or the time has expired (kind `timeout`). */
  constructor(
    signals: readonly (AbortSignal | undefined)[],
    timeoutMs: number | undefined,
    messages: StopMessages,
  ) {
    this.#signals = signals.filter(signal => signal !== undefined);
    this.#cancel = () => this.because(new BuildError('cancelled', messages.cancelled));
    for (const signal of this.#signals) {
      signal.addEventListener('abort', this.#cancel);
      if (signal.aborted) this.#cancel();
    }
    if (timeoutMs === undefined) return;
    const onTimeout = () => this.because(new BuildError('timeout', messages.timeout));
    this.#timer = setTimeout(onTimeout, timeoutMs);
  }

  /** Aborted with the first reason. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  because(reason: unknown): void {
    this.#controller.abort(reason);
  }

  /** Removes the timer and the listeners, so that nothing stops the operation any more. */
  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
    for (const signal of this.#signals) signal.removeEventListener('abort', this.#cancel);
  }
}
