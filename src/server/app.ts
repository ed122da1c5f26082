import { Router } from '@koa/router';
import Koa from 'koa';
import { closeInTurn } from '../foundation/closing.ts';
import { Fault } from '../foundation/fault.ts';
import { createMetricsRegistry } from '../foundation/telemetry.ts';
import { buildRoutes } from '../http/api/build-routes.ts';
import { containerRoutes } from '../http/api/container/container-routes.ts';
import { createOpenApi } from '../http/api/description/openapi.ts';
import { inspectRoutes } from '../http/api/inspect-routes.ts';
import { metricsRoutes } from '../http/api/metrics-routes.ts';
import { serviceRoutes } from '../http/api/service-routes.ts';
import { validateRoutes } from '../http/api/validate-credentials.ts';
import { viewRoutes } from '../http/api/view-routes.ts';
import { createBodyMemory, lendMemory, usualBodyMemory } from '../http/bodies/body-memory.ts';
import { createNoteDeed } from '../http/callers/audit-notes.ts';
import { createAdministratorCheck, createCheckAccount } from '../http/callers/basic-auth.ts';
import { createCallers } from '../http/callers/callers.ts';
import { createIdentify } from '../http/callers/identify.ts';
import { requireHost } from '../http/errors/broken-requests.ts';
import { outermost } from '../http/errors/error-answers.ts';
import { wrongMethod } from '../http/errors/wrong-method.ts';
import { createGate } from '../http/gates/access-gate.ts';
import { createCrossOrigin } from '../http/gates/cross-origin.ts';
import { refuseForeignPages } from '../http/gates/foreign-page.ts';
import { gate } from '../http/gates/gate.ts';
import { createPullGuard } from '../http/gates/pull-guard.ts';
import { createLimiter } from '../http/limits/limiter.ts';
import { createLoginLimit } from '../http/limits/login-limit.ts';
import { limitRequestsAtOnce } from '../http/limits/requests-at-once.ts';
import { createObserver } from '../http/observe.ts';
import { createCallLimits } from '../http/platform/call-limits.ts';
import { platformRoutes } from '../http/platform/platform-routes.ts';
import { createRegistryAuth } from '../http/registry/login/registry-auth.ts';
import { createLogIn } from '../http/registry/login/registry-challenge-login.ts';
import { registryRoutes, tokenPath } from '../http/registry/registry-routes.ts';
import type { RequestState } from '../http/request-state.ts';
import type { Pairing } from '../platform/pairing/pairing.ts';
import type { AppDeps } from './assembly/app-deps.ts';
import { createContainers } from './assembly/containers.ts';
import { createPeople } from './assembly/people.ts';
import { createPulls } from './assembly/pulls.ts';
import { createRegistries } from './assembly/registry-clients.ts';
import { startRegularWork } from './assembly/regular-work.ts';
import { openState } from './assembly/server-state.ts';
import { accessRules } from './config/read/access-in-force.ts';
import { configuredPlaces } from './config/read/places.ts';
import { createReadiness } from './upkeep/readiness.ts';

export interface App {
  readonly koa: Koa<RequestState>;
  /** Platforms that pair, over WebSockets. */
  readonly pairing: Pairing;
  /** From now on the server is not ready for new work; what is under way goes on. */
  drain(): void;
  /** Writes what is still in memory and closes all parts. Logs parts that fail; never rejects. */
  close(): Promise<void>;
}

/** Puts the server together, from the disk up to the routes; nothing listens yet. */
export async function createApp(deps: AppDeps): Promise<App> {
  const { config, publicUrl, log, version } = deps;
  const places = configuredPlaces(config, publicUrl);
  const state = await openState(deps);
  const registries = createRegistries(deps, state);
  const people = createPeople(deps, state, registries, places);
  const containers = createContainers(deps, state, registries, people, places);
  const { hosted, accounts, accountCheck, transport, layerTransport, urlOf, checkLogin } =
    registries;
  const { identities, platform, client } = people;
  const { building } = containers;
  const { usage, content, space } = state;

  let isDraining = false;
  const readiness = createReadiness({ ...state, directory: state.pathOf('content') });

  const router = new Router<RequestState>();
  const { bodyBytes: maxBodyBytes } = config.limits;
  const logins = createLoginLimit(config.limits.logins, config.trustedProxies);
  const callers = createCallers();
  const checkAccount = createCheckAccount(accounts, accountCheck, logins, callers);
  const requireAdministrator = createAdministratorCheck(checkAccount);
  const identify = createIdentify({ identities, checkAccount, logins, callers });
  const rules = accessRules(config, publicUrl);
  const accessGate = createGate(rules);
  log.info({ access: rules }, 'who may use this server');
  const noteDeed = createNoteDeed(state.audit, callers, config.trustedProxies);
  const asking = {
    gate: accessGate,
    identify,
    maxBodyBytes,
    trustedProxies: config.trustedProxies,
    limiter: createLimiter('container requests'),
    rates: config.limits.requests,
  };
  containerRoutes(router, {
    ...containers,
    ...asking,
    noteDeed,
    requireAdministrator,
    buildLimiter: createLimiter('builds'),
    buildRates: config.limits.builds,
    usage,
    builds: building.builds,
    logUrlOf: building.logUrlOf,
    space,
  });
  buildRoutes(router, { ...building, ...asking, requireAdministrator, urlOf, noteDeed });
  const { credentialsOf } = identities;
  inspectRoutes(router, { ...asking, inspect: containers.inspect, credentialsOf });
  validateRoutes(router, { ...asking, checkLogin, logins });
  metricsRoutes(router, { usage, requireAdministrator });
  const metrics = createMetricsRegistry();
  const openapi = createOpenApi(version.version);
  const isStopping = () => isDraining;
  viewRoutes(router);
  const { reportVersion } = config;
  serviceRoutes(router, { version, reportVersion, readiness, isStopping, metrics, openapi });

  const koa = new Koa<RequestState>();
  // Whatever goes wrong is in the log already; Koa would also print it, even for clients that leave.
  koa.silent = true;
  const { trustedProxies } = config;
  koa.use(outermost({ log, callers, trustedProxies, observe: createObserver(metrics) }));
  const crossOrigin = createCrossOrigin(config.cors.origins);
  if (config.cors.origins.length > 0) koa.use(crossOrigin.answer);
  const { perAddress, requestTime } = config.limits.connections;
  const bodies = createBodyMemory(config.limits.bodyMemory ?? usualBodyMemory());
  koa.use(
    gate(
      requireHost,
      refuseForeignPages(publicUrl, crossOrigin.isAllowed),
      ...(trustedProxies > 0 ? [limitRequestsAtOnce(perAddress, trustedProxies)] : []),
      lendMemory(bodies, trustedProxies, requestTime),
    ),
  );
  const realm = new URL(tokenPath, publicUrl).href;
  const { keeper, tokens } = hosted;
  const pullsNeedLogin = rules.pulls === 'login';
  const logIn = createLogIn({
    ...{ keeper, logins, identify, callers },
    takesAccessTokens: pullsNeedLogin,
  });
  const auth = createRegistryAuth({ keeper, tokens, realm, logIn, callers, pullsNeedLogin });
  koa.use(
    registryRoutes({
      prefix: config.prefix,
      served: {
        ...createPulls(deps, state, registries, containers),
        guard: createPullGuard(rules.pulls, auth),
        prefix: config.prefix,
      },
      hosted: { ...hosted, content, auth, callers, noteDeed },
      token: { keeper, tokens, logIn, servedPrefix: `${config.prefix}/`, pulls: rules.pulls },
    }),
  );
  koa.use(router.routes());
  const limits = createCallLimits();
  koa.use(
    platformRoutes({
      ...{ platform, version, requireAdministrator, logins, limits, callers, space },
      ...{ audit: state.audit, trustedProxies: config.trustedProxies },
    }),
  );
  koa.use(noRoute(router));

  await building.builds.resume(({ isTrusted }) => accessGate.mayBuild(isTrusted));
  const work = startRegularWork(deps, state, registries, people, containers);

  return {
    koa,
    pairing: client.pairing,
    drain() {
      isDraining = true;
      building.builds.drain();
    },
    async close() {
      await closeInTurn(
        [
          ['regular work', work.stop],
          ['builds', building.close],
          ['usage', usage.flush],
          ['audit log', state.audit.flush],
          ['platforms', client.close],
          ['connections to registries', transport.close],
          ['connections for layers', layerTransport.close],
          ['data directory', state.close],
        ],
        log,
      );
    },
  };
}

/** Answers what no route has taken: 405 for a path that has other methods. */
function noRoute(router: Router<RequestState>): Koa.Middleware<RequestState> {
  return ({ path, method }) => {
    const methods = router.match(path, method).path.flatMap(layer => layer.methods);
    if (methods.length > 0) throw wrongMethod(method, methods);
    throw new Fault('not-found', 'No such route: GET /docs lists them all', { phase: 'request' });
  };
}
