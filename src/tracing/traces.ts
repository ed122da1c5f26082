/** Values that a span may carry: nothing secret, they leave the server. */
export type Attributes = Readonly<Record<string, string | number | boolean | undefined>>;

/** A piece of work in a trace. */
export interface Span {
  rename(name: string): void;
  set(attributes: Attributes): void;
  /** Marks it as failed. A rejection of its work does so too. */
  fail(): void;
}

export interface SpanOptions {
  /** `server` answers a request, `client` waits for another program. Default: neither. */
  readonly kind?: 'server' | 'client';
  readonly attributes?: Attributes;
  /** Headers of the request that it answers, which may name the span of the client. */
  readonly from?: Readonly<Record<string, string | readonly string[] | undefined>>;
}

/** What records spans. */
export interface Tracing {
  run<T>(name: string, options: SpanOptions, work: (span: Span) => Promise<T>): Promise<T>;
  /** Returns the headers that name the current span to another program. Source: W3C Trace Context, section 3. */
  headers(): Readonly<Record<string, string>>;
  /** Sends what is recorded, for up to the time (ms). */
  close(withinMs: number): Promise<void>;
}

export const noSpan: Span = { rename() {}, set() {}, fail() {} };
const noHeaders: Readonly<Record<string, string>> = {};

// One for the process, as in OpenTelemetry: the work of all rooms belongs to the trace of a request.
let current: Tracing | undefined;

/** Records the spans of this process from now on; undefined for none. */
export function useTracing(tracing: Tracing | undefined): void {
  current = tracing;
}

/** Does work as a part of the current trace. Spans of work within it are its children. Without tracing, it only works. */
export function traced<T>(
  name: string,
  options: SpanOptions,
  work: (span: Span) => Promise<T>,
): Promise<T> {
  return current ? current.run(name, options, work) : work(noSpan);
}

/** Returns the headers that name the current span to another program; none without tracing. */
export function traceHeaders(): Readonly<Record<string, string>> {
  return current?.headers() ?? noHeaders;
}
