import type { Router } from '@koa/router';
import type { Registry } from 'prom-client';
import { Fault } from '../../foundation/fault.ts';
import { pageHeaders } from '../../foundation/security-headers.ts';
import type { Version } from '../../foundation/version.ts';
import type { Readiness } from '../../server/upkeep/readiness.ts';
import type { RequestState } from '../request-state.ts';
import { queryOf } from '../request-target.ts';
import { apiLevel } from './aliases.ts';
import type { OpenApi } from './description/api-description.ts';
import { docsPage, docsStyleHash } from './description/docs-page.ts';

export interface ServiceDeps {
  readonly version: Version;
  /** Whether `/service-info` reports the version of the service, or the level of its API. */
  readonly reportVersion: 'own' | 'api';
  readonly readiness: Readiness;
  /** True from the moment on at which the server begins to stop. */
  readonly isStopping: () => boolean;
  readonly metrics: Registry;
  readonly openapi: OpenApi;
}

/** The service about itself. Source: container service specification, section 2.6. */
export function serviceRoutes(router: Router<RequestState>, deps: ServiceDeps): void {
  router.get('/service-info', ctx => {
    const { version, commitId } = deps.version;
    const reported = deps.reportVersion === 'api' ? `${apiLevel}+sluice.${version}` : version;
    ctx.body = { serviceInfo: { version: reported, commitId, apiLevel } };
  });
  router.get('/healthz', ctx => {
    ctx.body = { status: 'ok' };
  });
  // The form that health checks of Wave expect.
  router.get('/health', ctx => {
    ctx.body = { status: 'UP' };
  });
  router.get('/readyz', async ctx => {
    if (deps.isStopping()) throw new Fault('unavailable', 'The server is stopping');
    // A balancer that has no other server keeps pulls going with a disk that is full.
    await (queryOf(ctx.req).get('for') === 'pulls'
      ? deps.readiness.forReading()
      : deps.readiness.forAll());
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
    ctx.set(pageHeaders([docsStyleHash]));
    ctx.type = 'html';
    ctx.body = docsPage(deps.openapi);
  });
}
