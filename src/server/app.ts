import Koa from 'koa';
import { Fault } from '../foundation/fault.ts';
import {
  addLeadMetric,
  addLoadMetric,
  createBlobMetrics,
  createMetricsRegistry,
  createRemoteMetrics,
} from '../foundation/telemetry/index.ts';
import { type ClosingPart, closeInTurn } from '../foundation/work.ts';
import { jsonApi, jsonApiDocument } from '../http/api/index.ts';
import {
  createAdministratorCheck,
  createBodyMemory,
  createCallLimits,
  createCheckAccount,
  createCrossOrigin,
  createGate,
  createHostCheck,
  createIdentify,
  createLimiter,
  createLoginLimit,
  createNoteBuild,
  createNotePull,
  createObserver,
  createRecordAudit,
  gate,
  keepBuildersToImages,
  lendMemory,
  limitRequestsAtOnce,
  outermost,
  platformRoutes,
  type RefusedListener,
  type RequestState,
  refuseForeignPages,
  requireChanges,
  requireOwnHost,
  traceRequests,
  usualBodyMemory,
} from '../http/index.ts';
import {
  createLogIn,
  createRegistryAuth,
  createTakePulls,
  registryRoutes,
  type TakePulls,
  tokenPath,
} from '../http/registry/index.ts';
import { createLatePages, createSessionCookie, createSessions } from '../pages/index.ts';
import type { Pairing } from '../platform/index.ts';
import { isDirectory, localContent } from '../storage/index.ts';
import { createConda } from './assembly/conda.ts';
import { createContainers } from './assembly/containers.ts';
import { startMessages } from './assembly/messages.ts';
import { createPeople } from './assembly/people.ts';
import { createHostedPullCount, createPulls } from './assembly/pulls.ts';
import { createRegistries } from './assembly/registry-clients.ts';
import { startRegularWork } from './assembly/regular-work.ts';
import { type AppDeps, openState } from './assembly/server-state.ts';
import { isBehindOthers } from './config/index.ts';
import { accessRules, configuredPlaces, ownHosts } from './config/read/index.ts';
import type { StopReason } from './life/stop-server.ts';
import { createReadiness, flushFigures } from './upkeep/index.ts';

// No build has this name.
const probeName = 'ready';

export interface App {
  readonly koa: Koa<RequestState>;
  /** Platforms that pair with this server over WebSockets. */
  readonly pairing: Pairing;
  /** Counts a connection that a limit has refused. */
  readonly noteRefused: RefusedListener;
  /** Counts pulls that another replica answers. */
  readonly takePulls: TakePulls;
  /** Reports the server as not ready for new work. Running work continues, except for builds after the loss of the lead. */
  drain(why: StopReason): void;
  /** Stops all work that changes rows, and writes unsaved state: another server continues. Requests in progress continue. */
  release(): Promise<void>;
  /** Writes unsaved state and closes all parts. Logs parts that fail; never rejects. */
  close(): Promise<void>;
}

/** Creates the server, from the disk up to the routes. It does not listen yet. */
export async function createApp(deps: AppDeps): Promise<App> {
  const { config, publicUrl, log, version } = deps;
  const places = configuredPlaces(config, publicUrl);
  const metrics = createMetricsRegistry();
  const state = await openState(deps, metrics);
  addLeadMetric(metrics, state.rows.isCurrent);
  const registries = createRegistries(deps, state);
  const people = createPeople(deps, state, registries, places);
  const conda = createConda(deps, state, registries);
  const containers = createContainers(deps, state, registries, people, conda, places);
  const { hosted, accounts, accountCheck, transport, layerTransport, urlOf, checkLogin } =
    registries;
  const { identities, platform, client } = people;
  const { building } = containers;
  const { usage, content, space } = state;
  addLoadMetric(metrics, building.builds.load);

  let isDraining = false;
  let isReleased = false;
  const { buildLogs } = state;
  const readiness = createReadiness({
    ...state,
    directory: localContent(config),
    writeContent:
      buildLogs &&
      (async () => {
        await buildLogs.put(probeName, Buffer.from('written by the readiness check'));
        await buildLogs.remove(probeName);
      }),
    contentPart: isDirectory(config) ? 'disk' : 'object store',
  });

  const { bodyBytes: maxBodyBytes } = config.limits;
  const logins = createLoginLimit(config.limits.logins, config.trustedProxies);
  const checkAccount = createCheckAccount(accounts, accountCheck, logins);
  const requireAdministrator = createAdministratorCheck(checkAccount);
  const identify = createIdentify({ identities, checkAccount, logins });
  const rules = accessRules(config, publicUrl);
  const freezesAll = config.tokens.onlyFrozen === 'freeze';
  const accessGate = createGate(rules, freezesAll);
  log.info({ access: rules }, 'access rules of this server');
  const recordAudit = createRecordAudit(state.audit, config.trustedProxies);
  const auditOf = (kind: 'pulls' | 'builds') =>
    config.audit[kind] === 'on' ? state.audits[kind] : undefined;
  const notePull = createNotePull(auditOf('pulls'), config.trustedProxies);
  const noteBuild = createNoteBuild(auditOf('builds'), config.trustedProxies);
  const apiDeps = {
    ...containers,
    ...building,
    gate: accessGate,
    freezesAll,
    scanPolicy: config.scans,
    identify,
    requireAdministrator,
    maxBodyBytes,
    trustedProxies: config.trustedProxies,
    limiter: createLimiter('container requests'),
    rates: config.limits.requests,
    buildLimiter: createLimiter('builds'),
    buildRates: config.limits.builds,
    credentialsOf: identities.credentialsOf,
    reportVersion: config.reportVersion,
    isStopping: () => isDraining,
    openapi: jsonApiDocument(version.version),
    remoteMetrics: createRemoteMetrics(state.remotes),
    dayCounts: state.rows.dayCounts,
    requests: state.rows.requests,
    recordAudit,
    noteBuild,
    usage,
    space,
    urlOf,
    checkLogin,
    logins,
    metrics,
    version,
    readiness,
  };

  const koa = new Koa<RequestState>();
  // Errors are logged elsewhere. Koa would also print them, even for clients that disconnect.
  koa.silent = true;
  const { trustedProxies } = config;
  const observe = createObserver(metrics);
  const noteBlob = createBlobMetrics(metrics);
  if (config.traces.endpoint) koa.use(traceRequests);
  koa.use(outermost({ log, trustedProxies, publicUrl, observe, tally: state.tally }));
  koa.use(gate(requireOwnHost(createHostCheck(ownHosts(config, publicUrl)))));
  const crossOrigin = createCrossOrigin(config.cors.origins);
  if (config.cors.origins.length > 0) koa.use(crossOrigin.respond);
  const { perAddress, requestTime } = config.limits.connections;
  const bodies = createBodyMemory(config.limits.bodyMemory ?? usualBodyMemory());
  koa.use(
    gate(
      refuseForeignPages(publicUrl, crossOrigin.isAllowed),
      keepBuildersToImages,
      requireChanges(state.rows),
      ...(isBehindOthers(config) ? [limitRequestsAtOnce(perAddress, trustedProxies)] : []),
      lendMemory(bodies, trustedProxies, requestTime),
    ),
  );
  const realm = new URL(tokenPath, publicUrl).href;
  const { authenticator, tokens } = hosted;
  const pullsNeedLogin = rules.pulls === 'login';
  const logIn = createLogIn({
    authenticator,
    logins,
    identify,
    host: tokens.service,
    servedRequest: name => containers.tokens.get(name.split('/')[1] ?? '').catch(() => undefined),
  });
  const auth = createRegistryAuth({ authenticator, tokens, realm, logIn, pulls: rules.pulls });
  const served = createPulls(deps, state, registries, containers);
  const countHosted = createHostedPullCount(state, registries);
  koa.use(
    registryRoutes({
      prefix: config.prefix,
      served: {
        ...served,
        auth,
        prefix: config.prefix,
        noteBlob,
        notePull,
      },
      hosted: {
        ...hosted,
        content,
        auth,
        recordAudit,
        noteBlob,
        notePull,
        host: tokens.service,
        awaitBuild: containers.awaitBuild,
        countPull: countHosted,
        trustedProxies,
      },
      token: {
        authenticator,
        tokens,
        logIn,
        servedPrefix: `${config.prefix}/`,
        pulls: rules.pulls,
      },
    }),
  );
  const { hosted: store, pulls } = state.rows;
  const repositories = { ...hosted, content, store, pulls, auth, host: tokens.service };
  const hasPages = config.pages === 'on';
  const pagesDeps = {
    ...apiDeps,
    sessions: createSessions(state.rows.sessions),
    cookie: createSessionCookie(publicUrl.protocol === 'https:'),
    accounts,
    platform,
    content,
    packageSearch: conda.packageSearch,
    projectSearch: conda.projectSearch,
    previewLimiter: createLimiter('dry runs and searches'),
    operation: operationOf(config),
    figures: state.rows,
    remotes: state.remotes,
    diskUse: state.diskUse.latest,
    pullsNeedLogin,
    publicUrl,
    documentation: config.documentation,
    buildList: state.rows.buildList,
    pulls,
    repositories,
  };
  if (hasPages) koa.use(createLatePages(pagesDeps));
  const { packageSearch, projectSearch, buildList } = pagesDeps;
  koa.use(jsonApi({ ...apiDeps, repositories, packageSearch, projectSearch, buildList }));
  const limits = createCallLimits();
  koa.use(
    platformRoutes({
      platform,
      version,
      requireAdministrator,
      logins,
      limits,
      space,
      audit: state.audit,
      audits: state.audits,
      messages: state.rows.messages,
      trustedProxies: config.trustedProxies,
    }),
  );
  koa.use(() => noRoute(hasPages ? '/docs' : '/openapi.json'));

  await building.builds.resume(({ isTrusted }) => accessGate.mayBuild(isTrusted));
  const work = startRegularWork(deps, state, registries, people, containers, metrics);
  const messages = startMessages(deps, state, registries, metrics);

  const unsaved: ClosingPart[] = [
    ['usage', usage.flush],
    ['figures', flushFigures(state.rows)],
    ...Object.values(state.audits).map(audit => ['audit log', audit.flush] as const),
  ];

  return {
    koa,
    pairing: client.pairing,
    takePulls: createTakePulls({ ...containers, meter: served.meter, countHosted }),
    noteRefused(limit, network) {
      state.tally.add('limits', { limit });
      state.tally.add('refused callers', { caller: network });
    },
    drain(why) {
      isDraining = true;
      building.builds.drain();
      // The replica that leads now runs them.
      if (why === 'lost') void building.builds.close();
    },
    async release() {
      isReleased = true;
      // Platforms connect to the next leader, which also runs the builds.
      client.pairing.close();
      const parts: ClosingPart[] = [
        ['builds', building.builds.close],
        ['scans', containers.scans?.close ?? (() => {})],
        ['messages', messages.close],
        ['regular work', work.stop],
      ];
      await Promise.all(parts.map(part => closeInTurn([part], log)));
      await closeInTurn(unsaved, log);
    },
    async close() {
      const workEnds = work.stop();
      await closeInTurn(
        [
          // They stop while the regular work does: either may wait for a slow object store.
          ['scans', containers.scans?.close ?? (() => {})],
          ['builds', building.close],
          ['messages', messages.close],
          ['regular work', () => workEnds],
          ['listings of layers', containers.layerListings.close],
          ['conda', conda.close],
          // The next leader writes the rows.
          ...(isReleased ? [] : unsaved),
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

/** Answers requests that no route matches. */
function noRoute(list: string): never {
  throw new Fault('not-found', `No such route: GET ${list} lists them all`, { phase: 'request' });
}

/** Returns the limits that the page for operators shows. */
function operationOf(config: AppDeps['config']) {
  const { data, disk, builds, hosted, anonymous, conda } = config;
  return {
    directory: data,
    minFreeBytes: disk.minFreeBytes,
    maxRunning: builds.concurrent,
    maxWaiting: builds.maxWaiting,
    limits: {
      cacheBytes: config.cacheBytes,
      hostedBytes: hosted.maxTotalBytes,
      repositoryBytes: hosted.maxRepositoryBytes,
      blobBytes: hosted.maxBlobBytes,
      contextBytes: hosted.maxContextBytes,
      anonymousBytes: anonymous.maxBytes,
      anonymousBuildBytes: anonymous.maxBuildBytes,
      repodataBytes: conda.repodata.maxBytes,
      builderBytes: builds.builderDisk,
    },
  };
}
