import { Router } from '@koa/router';
import Koa from 'koa';
import type { AppDeps } from './assembly/app-deps.ts';
import { createContainers } from './assembly/containers.ts';
import { createPeople } from './assembly/people.ts';
import { createPulls } from './assembly/pulls.ts';
import { createRegistries } from './assembly/registries.ts';
import { startRegularWork } from './assembly/regular-work.ts';
import { openState } from './assembly/state.ts';
import { Fault } from './fault.ts';
import { createAdministratorCheck } from './http/basic-auth.ts';
import { buildRoutes } from './http/builds.ts';
import { containerRoutes } from './http/container.ts';
import { outermost } from './http/errors.ts';
import { createIdentify } from './http/identify.ts';
import { inspectRoutes } from './http/inspect.ts';
import { createLimiter } from './http/limiter.ts';
import { createLoginLimit } from './http/login-limit.ts';
import { metricsRoutes } from './http/metrics.ts';
import { createObserver } from './http/observe.ts';
import { createOpenApi } from './http/openapi.ts';
import { createCallLimits } from './http/platform/call-limits.ts';
import { platformRoutes } from './http/platform/routes.ts';
import { registryRoutes, tokenPath } from './http/registry.ts';
import { createRegistryAuth } from './http/registry-auth.ts';
import { serviceRoutes } from './http/service.ts';
import type { RequestState } from './http/state.ts';
import { validateRoutes } from './http/validate-credentials.ts';
import type { Pairing } from './platform/pairing.ts';
import { createMetricsRegistry } from './telemetry.ts';

export interface App {
  readonly koa: Koa<RequestState>;
  /** Platforms that pair, over WebSockets. */
  readonly pairing: Pairing;
  /** From now on the server is not ready for new work; what is under way goes on. */
  drain(): void;
  /** Writes what is still in memory and lets go of everything. */
  close(): Promise<void>;
}

/** Puts the server together, from the disk up to the routes; nothing listens yet. */
export async function createApp(deps: AppDeps): Promise<App> {
  const { config, publicUrl, log, version } = deps;
  const places = {
    repository: config.buildRepository ?? `${publicUrl.host}/builds`,
    cache: config.cacheRepository,
  };
  const state = await openState(deps);
  const registries = createRegistries(deps, state);
  const people = createPeople(deps, state, registries, places);
  const containers = createContainers(deps, state, registries, people, places);
  const { hosted, accounts, transport, urlOf, checkLogin } = registries;
  const { identities, platform, client } = people;
  const { building } = containers;
  const { usage, content } = state;

  let isDraining = false;
  const ready = async () => {
    if (isDraining) throw new Error('the server is stopping');
    state.database.prepare('SELECT 1').get();
  };

  const router = new Router<RequestState>();
  const { bodyBytes: maxBodyBytes } = config.limits;
  const logins = createLoginLimit(config.limits.logins, config.trustedProxies);
  const requireAdministrator = createAdministratorCheck(accounts, logins);
  const identify = createIdentify(identities, logins);
  containerRoutes(router, {
    ...containers,
    identify,
    requireAdministrator,
    maxBodyBytes,
    trustedProxies: config.trustedProxies,
    limiter: createLimiter('container requests'),
    rates: config.limits.requests,
    buildLimiter: createLimiter('builds'),
    buildRates: config.limits.builds,
    usage,
    builds: building.builds,
  });
  buildRoutes(router, { ...building, requireAdministrator, urlOf });
  const { credentialsOf } = identities;
  inspectRoutes(router, { inspect: containers.inspect, identify, credentialsOf, maxBodyBytes });
  validateRoutes(router, { checkLogin, logins, maxBodyBytes });
  metricsRoutes(router, { usage, requireAdministrator });
  const metrics = createMetricsRegistry();
  const openapi = createOpenApi(version.version);
  serviceRoutes(router, { version, ready, metrics, openapi });

  const koa = new Koa<RequestState>();
  // Whatever goes wrong is in the log already; Koa would print it besides, a client that leaves included.
  koa.silent = true;
  koa.use(outermost(log, createObserver(metrics)));
  const realm = new URL(tokenPath, publicUrl).href;
  const auth = createRegistryAuth(hosted.keeper, realm, hosted.tokens.service, logins);
  koa.use(
    registryRoutes({
      prefix: config.prefix,
      served: createPulls(deps, state, registries, people, containers),
      hosted: { ...hosted, content, auth },
      token: {
        keeper: hosted.keeper,
        tokens: hosted.tokens,
        logins,
        servedPrefix: `${config.prefix}/`,
      },
    }),
  );
  koa.use(router.routes());
  const limits = createCallLimits();
  koa.use(platformRoutes({ platform, version, requireAdministrator, logins, limits }));
  koa.use(noRoute);

  building.builds.resume();
  const work = startRegularWork(deps, state, registries, people, containers);

  return {
    koa,
    pairing: client.pairing,
    drain() {
      isDraining = true;
      building.builds.drain();
    },
    async close() {
      await work.stop();
      await building.close();
      usage.flush();
      await client.close();
      await transport.close();
      state.close();
    },
  };
}

function noRoute(): never {
  throw new Fault('not-found', 'No such route: GET /docs lists them all', { phase: 'request' });
}
