import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import Koa from 'koa';
import { z } from 'zod';
import { Fault } from '../../src/foundation/fault.ts';
import type { RequestState } from '../../src/http/request-state.ts';
import { pathNumber } from '../../src/http/route/declaration.ts';
import { type HttpRequest, routesOf, serveRoutes } from '../../src/http/route/pipeline.ts';

interface Kind {
  readonly declares: { readonly isElsewhere?: true };
  readonly knows: { readonly anybody: { readonly name: string }; readonly nobody: object };
  readonly request: HttpRequest;
  readonly returns: unknown;
  readonly deps: { readonly maxBodyBytes: number; readonly steps: string[] };
}

const route = routesOf<Kind>(async ({ access, limit }, _request, { steps }, readInput) => {
  steps.push('admit');
  if (access === 'nobody') throw new Fault('denied', 'Nobody may');
  const input = await readInput();
  steps.push('input');
  const left = { limit: 3, remaining: 2, resetSeconds: 1 };
  return { input, known: { name: 'ada' }, ...(limit && { limit: work => work(left) }) };
});

const body = { schema: z.object({ count: z.int() }), review: () => ['a warning'] };

const routes = [
  route({
    method: 'post',
    path: '/things/{id}',
    access: 'anybody',
    params: { id: pathNumber },
    query: z.object({ of: z.enum(['a', 'b']) }),
    body,
    limit: 'requests',
    run: ({ params, query, body, warnings, name, left }, { steps }) => {
      steps.push('run');
      return { ...params, ...query, ...body, warnings, name, remaining: left?.remaining };
    },
  }),
  route({ method: 'put', path: '/closed', access: 'nobody', body, run: () => 'never' }),
  route({ method: 'get', path: '/elsewhere', access: 'anybody', isElsewhere: true, run: () => 1 }),
];

async function answer(method: string, path: string, sent?: unknown) {
  const steps: string[] = [];
  const koa = new Koa<RequestState>();
  let label: string | undefined;
  koa.use(async (ctx, next) => {
    try {
      await next();
    } catch (error) {
      assert.ok(error instanceof Fault);
      ctx.status = error.status;
      ctx.body = error.message;
      ctx.set(error.headers ?? {});
    }
    label = ctx.state.route;
    if (ctx.req.readableDidRead) steps.push('body');
  });
  koa.use(
    serveRoutes(
      routes,
      {
        passes: (_, { isElsewhere }) => isElsewhere === true,
        send(ctx, value) {
          ctx.body = value;
        },
      },
      { maxBodyBytes: 100, steps },
    ),
  );
  const server = createServer(koa.callback()).listen(0, '127.0.0.1');
  await once(server, 'listening');
  try {
    const { port } = server.address() as AddressInfo;
    const response = await fetch(`http://127.0.0.1:${port}${path}`, {
      method,
      ...(sent === undefined
        ? {}
        : { body: JSON.stringify(sent), headers: { 'content-type': 'application/json' } }),
    });
    const text = await response.text();
    return { status: response.status, text, steps, label, allow: response.headers.get('allow') };
  } finally {
    server.close();
  }
}

test('a handler gets the input as its schemas type it, and what its kind knows of the caller', async () => {
  const { text, steps, label } = await answer('POST', '/things/7?of=a&of=b', { count: 1, more: 2 });
  assert.deepEqual(JSON.parse(text), {
    ...{ id: 7, of: 'a', count: 1, warnings: ['a warning'], name: 'ada', remaining: 2 },
  });
  assert.deepEqual(steps, ['admit', 'input', 'run', 'body']);
  assert.equal(label, '/things');
});

test('a caller who is refused first learns nothing of the input, and the body stays unread', async () => {
  const { status, text, steps } = await answer('PUT', '/closed', { count: 'wrong' });
  assert.deepEqual([status, text, steps], [403, 'Nobody may', ['admit']]);
});

test('what the address says is checked before the body is read', async () => {
  for (const [path, reason] of [
    ['/things/x?of=a', "'x' in the path must be a number"],
    ['/things/1?of=c', /^'of': /],
  ] as const) {
    const { status, text, steps } = await answer('POST', path, { count: 'wrong' });
    assert.equal(status, 400);
    if (typeof reason === 'string') assert.equal(text, reason);
    else assert.match(text, reason);
    assert.deepEqual(steps, ['admit']);
  }
  const { text, steps } = await answer('POST', '/things/1?of=a', { count: 'wrong' });
  assert.match(text, /^'count': /);
  assert.deepEqual(steps, ['admit', 'body']);
});

test('a path without the method names its methods; a route of another kind is passed by', async () => {
  const wrong = await answer('GET', '/things/1');
  assert.deepEqual([wrong.status, wrong.allow, wrong.label], [405, 'POST', '/things']);
  const elsewhere = await answer('GET', '/elsewhere');
  assert.deepEqual([elsewhere.status, elsewhere.steps, elsewhere.label], [404, [], undefined]);
  assert.equal((await answer('GET', '/unknown')).status, 404);
});
