/** Traces from the request through registries and builders to a collector, which is slow, absent, or deceived. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, suite, test } from 'node:test';
import { pushCorpus } from '../corpus/corpus.ts';
import { type Buildkitd, startBuildkitd } from '../world/buildkitd.ts';
import { eventually } from '../world/eventually.ts';
import { freePort } from '../world/free-port.ts';
import { startObjectStore } from '../world/object-store.ts';
import { startPostgres } from '../world/postgres.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { startReplicas } from '../world/replicas.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';

interface SentSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly name: string;
  readonly kind: number;
  readonly status: { readonly code?: number };
  readonly attributes: readonly { readonly key: string; readonly value: object }[];
}

/** Takes what the exporters of Sluice (JSON) and of BuildKit (protobuf) send. Source: OTLP 1.10, OTLP/HTTP. */
class Collector {
  readonly spans: SentSpan[] = [];
  readonly others: Buffer[] = [];
  readonly #server: Server;

  static async start(): Promise<Collector> {
    const collector = new Collector();
    await once(collector.#server.listen(0, '127.0.0.1'), 'listening');
    return collector;
  }

  private constructor() {
    this.#server = createServer(async (request, response) => {
      const parts: Buffer[] = [];
      for await (const part of request) parts.push(part as Buffer);
      const body = Buffer.concat(parts);
      const isJson = request.headers['content-type'] === 'application/json';
      if (request.url !== '/v1/traces') this.others.push(Buffer.from(request.url ?? ''));
      else if (!isJson) this.others.push(body);
      else {
        const { resourceSpans } = JSON.parse(body.toString());
        for (const { scopeSpans } of resourceSpans) {
          for (const { spans } of scopeSpans) this.spans.push(...spans);
        }
      }
      response.writeHead(200, { 'content-type': request.headers['content-type'] ?? '' });
      response.end(isJson ? '{}' : undefined);
    });
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  stop(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }
}

const traceId = '0af7651916cd43dd8448eb211c80319c';
const traceparent = `00-${traceId}-b7ad6b7169203331-01`;

suite('a server with a collector', () => {
  let collector: Collector;
  let registry: Registry;
  let builder: Buildkitd;
  let sluice: Sluice;
  let base: string;
  let absent: string;

  before(async () => {
    collector = await Collector.start();
    absent = `127.0.0.1:${await freePort()}`;
    registry = await startRegistry();
    base = (await pushCorpus(registry, ['busybox:oci'])).get('busybox:oci')?.reference ?? '';
    builder = await startBuildkitd({ collector: collector.url });
    sluice = await startSluice({
      config: {
        buildkit: [builder.address],
        traces: { endpoint: collector.url },
        registries: { [registry.host]: { plainHttp: true }, [absent]: { plainHttp: true } },
      },
    });
  });
  after(async () => {
    await sluice?.stop();
    await builder?.stop();
    await registry?.stop();
    collector?.stop();
  });

  const sent = (body: object, headers: Record<string, string> = {}) =>
    sluice.fetch('/v1alpha2/container', {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify(body),
    });
  const named = (name: string | RegExp) =>
    collector.spans.filter(span =>
      typeof name === 'string' ? span.name === name : name.test(span.name),
    );
  const spanOf = async (name: string | RegExp, more: (span: SentSpan) => boolean = () => true) => {
    let found: SentSpan | undefined;
    await eventually(`a span ${name}`, () => {
      found = named(name).find(more);
      return found !== undefined;
    });
    return found as SentSpan;
  };

  test('a request of a client and the questions to its registry are one trace', async () => {
    const response = await sent({ containerImage: base }, { traceparent });
    const { targetImage } = (await response.json()) as { targetImage: string };
    const request = await spanOf('POST /v1alpha2/container');
    assert.equal(request.traceId, traceId);
    assert.equal(request.parentSpanId, 'b7ad6b7169203331');
    assert.equal(request.kind, 2);
    const upstream = await spanOf(`GET ${registry.host}`);
    assert.deepEqual([upstream.traceId, upstream.kind], [traceId, 3]);
    await (await fetch(sluice.at(targetImage, 'manifests/oci'))).arrayBuffer();
    const pull = await spanOf('GET /v2/.../manifests');
    assert.notEqual(pull.traceId, traceId);
    const [token = ''] = /[a-z2-7]{32,}/.exec(targetImage) ?? [];
    assert.ok(token !== '' && !JSON.stringify(collector.spans).includes(token));
    assert.match(JSON.stringify(pull.attributes), /<token>/);
    // The log line of a request names its trace.
    await sluice.requests();
    assert.ok(sluice.output().includes(`"traceId":"${traceId}"`));
    assert.ok(sluice.output().includes(`"traceId":"${pull.traceId}"`));
  });

  test('a build and the spans of its builder belong to the trace of the request', async () => {
    const recipe = Buffer.from(`FROM ${base}\nRUN echo traced\n`).toString('base64');
    const response = await sent({ containerFile: recipe }, { traceparent });
    const { buildId } = (await response.json()) as { buildId: string };
    const log = await (await sluice.fetch(`/v1alpha1/builds/${buildId}/logs?follow=true`)).text();
    assert.match(log, /The build succeeded/);
    const build = await spanOf('build');
    assert.equal(build.traceId, traceId);
    assert.match(JSON.stringify(build.attributes), new RegExp(buildId));
    const id = Buffer.from(traceId, 'hex');
    await eventually('BuildKit sends spans of this trace', () =>
      collector.others.some(body => body.includes(id) && body.includes('moby.buildkit')),
    );
  });

  test('failures are marked, and a trace that wants no record gets none', async () => {
    const unsampled = `00-${'1'.repeat(32)}-b7ad6b7169203331-00`;
    await (await sluice.fetch('/service-info', { headers: { traceparent: unsampled } })).text();
    await sent({ containerImage: `${absent}/none:1` });
    const failed = await spanOf(`HEAD ${absent}`);
    assert.equal(failed.status.code, 2);
    assert.ok(!collector.spans.some(span => span.traceId === '1'.repeat(32)));
    // What is no trace is none, and the server answers.
    for (const wrong of ['00-zz-1-01', 'x'.repeat(5000), '']) {
      const response = await sluice.fetch('/service-info', { headers: { traceparent: wrong } });
      assert.equal(response.status, 200);
    }
  });
});

test('a share of 0 records nothing, whatever clients ask for', async () => {
  const collector = await Collector.start();
  const sluice = await startSluice({
    config: { traces: { endpoint: collector.url, share: 0 } },
  });
  await (await sluice.fetch('/service-info', { headers: { traceparent } })).text();
  await sluice.stop();
  collector.stop();
  assert.deepEqual(collector.spans, []);
});

test('a collector that is away costs nothing but a warning', async () => {
  const endpoint = `http://127.0.0.1:${await freePort()}`;
  await using sluice = await startSluice({ config: { traces: { endpoint } } });
  const began = performance.now();
  // All of it: on a busy machine, so many lines follow the warning that `output` no longer has it.
  let log = '';
  sluice.process.stdout?.on('data', chunk => {
    log += chunk;
  });
  const warnings = () => log.split('traces cannot be sent to the collector').length - 1;
  // More than it keeps.
  for (let at = 0; at < 60; at += 1) {
    const ask = async () => (await sluice.fetch('/service-info')).text();
    await Promise.all(Array.from({ length: 50 }, ask));
  }
  await eventually('the log has it', () => warnings() > 0);
  const minutes = Math.floor((performance.now() - began) / 60_000);
  assert.ok(warnings() <= 1 + minutes, `${warnings()} warnings after ${minutes} minutes`);
});

test('a request that a replica hands on is one trace', async () => {
  const collector = await Collector.start();
  await using postgres = await startPostgres();
  await using store = await startObjectStore();
  const replicas = await startReplicas({
    ...{ postgres, store, count: 2 },
    config: { traces: { endpoint: collector.url } },
  });
  try {
    const follower = replicas.servers[1 - (await replicas.leader())] as Sluice;
    const path = '/v1alpha1/builds/none';
    await (await follower.fetch(path, { headers: { traceparent } })).text();
    const found = () => collector.spans.filter(span => span.traceId === traceId);
    await Promise.all(replicas.servers.map(server => server.stop()));
    const requests = found().filter(({ kind }) => kind === 2);
    assert.equal(requests.length, 2);
    const outer = requests.find(({ parentSpanId }) => parentSpanId === 'b7ad6b7169203331');
    const inner = requests.find(({ parentSpanId }) => parentSpanId === outer?.spanId);
    assert.ok(outer && inner);
    const query = found().find(({ name }) => name === 'postgresql');
    assert.equal(query?.parentSpanId, inner.spanId);
    assert.match(JSON.stringify(query?.attributes), /SELECT/);
  } finally {
    await replicas[Symbol.asyncDispose]();
    collector.stop();
  }
});
