import type { Router } from '@koa/router';
import type { Registry } from 'prom-client';
import { Fault } from '../fault.ts';
import type { Version } from '../version.ts';
import type { OpenApi } from './api-description.ts';
import { docsPage } from './docs-page.ts';
import type { RequestState } from './state.ts';

export interface ServiceDeps {
  readonly version: Version;
  /** Resolves when requests can be served; rejects with the reason when not. */
  readonly ready: () => Promise<void>;
  readonly metrics: Registry;
  readonly openapi: OpenApi;
}

/** The service about itself. Source: container service specification, section 2.6. */
export function serviceRoutes(router: Router<RequestState>, deps: ServiceDeps): void {
  router.get('/service-info', ctx => {
    ctx.body = { serviceInfo: deps.version };
  });
  router.get('/healthz', ctx => {
    ctx.body = { status: 'ok' };
  });
  router.get('/readyz', async ctx => {
    try {
      await deps.ready();
    } catch (cause) {
      throw new Fault('unavailable', 'The service cannot serve requests now: see its log', {
        phase: 'store',
        cause,
      });
    }
    ctx.body = { status: 'ready' };
  });
  router.get('/metrics', async ctx => {
    ctx.body = await deps.metrics.metrics();
    ctx.type = deps.metrics.contentType;
  });
  router.get('/openapi.json', ctx => {
    ctx.body = deps.openapi;
  });
  router.get('/docs', ctx => {
    ctx.type = 'html';
    ctx.body = docsPage(deps.openapi);
  });
}
