import {
  type Attributes as AllAttributes,
  context,
  type Span as OpenSpan,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  type TextMapGetter,
  trace,
} from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { W3CTraceContextPropagator } from '@opentelemetry/core';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { resourceFromAttributes } from '@opentelemetry/resources';
import {
  BatchSpanProcessor,
  ParentBasedSampler,
  type SpanExporter,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from '@opentelemetry/sdk-trace';
import { type Attributes, noSpan, type Span, type SpanOptions, type Tracing } from './traces.ts';

export interface TracingOptions {
  /** Base URL of a collector that takes OTLP over HTTP, such as `http://collector:4318`. */
  readonly endpoint: URL;
  /** Part of the traces that is recorded, from 0 to 1. */
  readonly share: number;
  readonly version: string;
  /** Called with the reason when spans could not be sent, at most once a minute. */
  readonly onFailure: (reason: unknown) => void;
}

// Text from clients, such as a user agent, has a bound.
const longestValue = 500;
const noteEveryMs = 60_000;
// Somebody who looks for a trace has just seen its request.
const sendMs = 1000;

const kinds = { server: SpanKind.SERVER, client: SpanKind.CLIENT } as const;

const headerOf: TextMapGetter<NonNullable<SpanOptions['from']>> = {
  get(headers, name) {
    const value = headers[name];
    return typeof value === 'string' ? value : undefined;
  },
  keys: headers => Object.keys(headers),
};

/** Records spans with the SDK of OpenTelemetry, and sends them to a collector. */
export function startTracing(options: TracingOptions): Tracing {
  const provider = new TracerProvider({
    resource: resourceFromAttributes({
      'service.name': 'sluice',
      'service.version': options.version,
    }),
    // Clients name traces, but do not decide how many are recorded. One that asks for no record gets none.
    sampler: new ParentBasedSampler({
      root: new TraceIdRatioBasedSampler(options.share),
      remoteParentSampled: new TraceIdRatioBasedSampler(options.share),
    }),
    spanLimits: { attributeValueLengthLimit: longestValue },
    // Drops spans when the collector is slower than the server.
    spanProcessors: [
      new BatchSpanProcessor({ exporter: exporterOf(options), scheduledDelayMillis: sendMs }),
    ],
  });
  const manager = new AsyncLocalStorageContextManager().enable();
  context.setGlobalContextManager(manager);
  const propagator = new W3CTraceContextPropagator();
  const tracer = provider.getTracer('sluice');

  return {
    run(name, { kind, attributes = {}, from }, work) {
      // Regular work, such as that of the sweeper, is no trace of its own.
      if (kind === 'client' && !trace.getActiveSpan()) return work(noSpan);
      const parent = from ? propagator.extract(ROOT_CONTEXT, from, headerOf) : context.active();
      const span = tracer.startSpan(
        name,
        { ...(kind ? { kind: kinds[kind] } : {}), attributes: given(attributes) },
        parent,
      );
      return context.with(trace.setSpan(parent, span), async () => {
        try {
          return await work(shown(span));
        } catch (error) {
          span.setStatus({ code: SpanStatusCode.ERROR });
          throw error;
        } finally {
          span.end();
        }
      });
    },

    headers() {
      const headers: Record<string, string> = {};
      propagator.inject(context.active(), headers, {
        set(carrier, name, value) {
          carrier[name] = value;
        },
      });
      return headers;
    },

    async close(withinMs) {
      const late = new Promise<void>(resolve => setTimeout(resolve, withinMs).unref());
      await Promise.race([provider.shutdown().catch(options.onFailure), late]);
      context.disable();
    },
  };
}

function exporterOf({ endpoint, onFailure }: TracingOptions): SpanExporter {
  const url = new URL(`${endpoint.pathname.replace(/\/$/, '')}/v1/traces`, endpoint).href;
  const exporter = new OTLPTraceExporter({ url });
  let notedAt = Number.NEGATIVE_INFINITY;
  return {
    export(spans, done) {
      exporter.export(spans, result => {
        const now = performance.now();
        if (result.error && now - notedAt > noteEveryMs) {
          notedAt = now;
          onFailure(result.error);
        }
        done(result);
      });
    },
    shutdown: () => exporter.shutdown(),
    forceFlush: () => exporter.forceFlush(),
  };
}

function shown(span: OpenSpan): Span {
  return {
    rename: name => void span.updateName(name),
    set: attributes => void span.setAttributes(given(attributes)),
    fail: () => void span.setStatus({ code: SpanStatusCode.ERROR }),
  };
}

function given(attributes: Attributes): AllAttributes {
  return Object.fromEntries(
    Object.entries(attributes).filter(([, value]) => value !== undefined),
  ) as AllAttributes;
}
