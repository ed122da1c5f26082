import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Router } from '@koa/router';
import Koa from 'koa';
import { createBuildService } from './build/build-service.ts';
import { findBuilders } from './build/find-builders.ts';
import { configuredCredentials, configuredRegistries } from './config/registries.ts';
import type { Config } from './config/schema.ts';
import { openContentStore } from './content/content-store.ts';
import { Fault } from './fault.ts';
import { createHosted } from './hosted/hosted.ts';
import { withOwnRegistry } from './hosted/own-registry.ts';
import { buildRoutes } from './http/builds.ts';
import { containerRoutes } from './http/container.ts';
import { outermost } from './http/errors.ts';
import { inspectRoutes } from './http/inspect.ts';
import { createLimiter } from './http/limiter.ts';
import { metricsRoutes } from './http/metrics.ts';
import { createObserver } from './http/observe.ts';
import { createOpenApi } from './http/openapi.ts';
import { createPullMeter } from './http/pull-meter.ts';
import { registryRoutes, tokenPath } from './http/registry.ts';
import { createRegistryAuth } from './http/registry-auth.ts';
import { serviceRoutes } from './http/service.ts';
import type { RequestState } from './http/state.ts';
import { createBaseResolver } from './images/base-image.ts';
import { createDocuments } from './images/documents.ts';
import { createImageMaker } from './images/image-maker.ts';
import { createBlobFinder } from './pull/blob.ts';
import { createBlobCache } from './pull/blob-cache.ts';
import { createBuiltBy } from './pull/built.ts';
import { createImageFinder } from './pull/image.ts';
import { createManifestFinder } from './pull/manifest.ts';
import { createPullCounter } from './pull/pull-counter.ts';
import { createAccept } from './request/accept.ts';
import { accessToBuilt as accessInOwnRight, createBuildIntake } from './request/built-image.ts';
import { createInspect } from './request/inspect.ts';
import { createLayerIntake } from './request/layers.ts';
import { createTokenRegistry } from './request/token-registry.ts';
import { createBuildStore } from './store/builds.ts';
import { createCachedBlobStore } from './store/cached-blobs.ts';
import { openDatabase } from './store/database.ts';
import { createFetchedLayerStore } from './store/fetched-layers.ts';
import { createHostedStore } from './store/hosted.ts';
import { readKeyFile } from './store/key-file.ts';
import { createRequestStore } from './store/requests.ts';
import { createUsageStore } from './store/usage.ts';
import { createMetricsRegistry, type Logger } from './telemetry.ts';
import { sweep } from './upkeep/sweep.ts';
import { startSweeping } from './upkeep/sweeping.ts';
import { type Access, createAuthorizer } from './upstream/authorizer.ts';
import { credentialKey } from './upstream/credentials.ts';
import { createExchange } from './upstream/exchange.ts';
import { fetchUrl } from './upstream/fetch-url.ts';
import { createRegistryClient } from './upstream/registry-client.ts';
import { endpointOf, settingsOf } from './upstream/registry-settings.ts';
import { createTransport } from './upstream/transport.ts';
import type { Version } from './version.ts';

export interface AppDeps {
  readonly config: Config;
  readonly publicUrl: URL;
  readonly log: Logger;
  readonly version: Version;
  /** Text of a Docker configuration with credentials. */
  readonly dockerAuthConfig?: string | undefined;
  /** Installs a builder, called when there is none. */
  readonly bringBuilder?: (() => Promise<void>) | undefined;
}

export interface App {
  readonly koa: Koa<RequestState>;
  /** From now on the server is not ready for new work; what is under way goes on. */
  drain(): void;
  /** Writes what is still in memory and lets go of everything. */
  close(): Promise<void>;
}

const flushMs = 1000;
const longestExpireMs = 60_000;
// What is used is marked so often within the grace of the sweep.
const renewalsInGrace = 4;
const purgeMs = 3_600_000;
const firstRetryMs = 250;
const longestRetryMs = 3000;

/** Puts the server together, from the disk up to the routes; nothing listens yet. */
export async function createApp(deps: AppDeps): Promise<App> {
  const { config, publicUrl, log } = deps;
  const data = (name: string) => join(config.data, name);

  const content = await openContentStore(data('content'));
  // What was on its way in when the last process ended.
  await content.removeLeftovers(Number.POSITIVE_INFINITY);
  const database = openDatabase(data('sluice.db'));
  const usage = createUsageStore(database);
  const cachedBlobs = createCachedBlobStore(database);
  const hostedStore = createHostedStore(database);
  const requests = createRequestStore(database);
  const tokens = createTokenRegistry(requests, config.tokenLife);

  const registries = configuredRegistries(config, publicUrl);
  const credentials = configuredCredentials(registries, config, deps.dockerAuthConfig);
  const transport = createTransport(
    registries,
    {
      connectMs: config.upstream.connectTimeout,
      headersMs: config.upstream.headersTimeout,
      idleMs: config.upstream.idleTimeout,
    },
    config.layers.privateHosts,
  );
  const exchange = createExchange({
    transport,
    authorizer: createAuthorizer(transport, registries),
    registries,
    mirrorCredentials: credentials,
    retry: {
      attempts: config.upstream.attempts,
      firstDelayMs: firstRetryMs,
      longestDelayMs: longestRetryMs,
    },
  });
  const accounts = new Map(Object.entries(config.accounts));
  const hosted = createHosted({
    content,
    store: hostedStore,
    cachedBlobs,
    accounts,
    anonymous: config.hosted.anonymous,
    limits: config.hosted,
    signingKey: readKeyFile(data('registry-token.key')),
    host: publicUrl.host,
  });
  const registry = withOwnRegistry(publicUrl.host, hosted.registry, createRegistryClient(exchange));

  const documents = createDocuments(content, registry, config.sweep.grace / renewalsInGrace);
  const makeImage = createImageMaker(documents);
  const bases = createBaseResolver(registry, documents, access =>
    access.isService ? 'service' : credentialKey(access.credentials),
  );
  const accessToBuilt = (image: Pick<Access, 'registry' | 'repository'>) =>
    accessInOwnRight(image, publicUrl.host, credentials);
  const isPlainHttp = (host: string) => settingsOf(registries, host).plainHttp;
  const building = createBuildService({
    store: createBuildStore(database),
    logDirectory: data('logs/builds'),
    found: findBuilders({
      configured: config.buildkit,
      directory: data('buildkit'),
      folders: [fileURLToPath(new URL('../.buildkit', import.meta.url))],
      plainHttp: [...registries.keys()].filter(isPlainHttp),
      bring: deps.bringBuilder,
      log,
    }),
    registry,
    credentials,
    tokens: hosted.tokens,
    accessToBuilt,
    ownHost: publicUrl.host,
    isPlainHttp,
    limits: config.builds,
    log,
  });
  const accept = createAccept({
    build: createBuildIntake({
      builds: building.builds,
      places: {
        repository: config.buildRepository ?? `${publicUrl.host}/builds`,
        cache: config.cacheRepository,
      },
      registry,
      credentials,
      ownHost: publicUrl.host,
    }),
    accessToBuilt,
    bases,
    makeImage,
    layers: createLayerIntake({
      content,
      cachedBlobs,
      fetched: createFetchedLayerStore(database),
      openUrl: url => fetchUrl(transport, url),
      limits: config.layers,
    }),
    tokens,
    credentials,
    servedBase: `${publicUrl.host}/${config.prefix}`,
    mountedLayers: config.layers.mounted,
  });

  const findImage = createImageFinder({
    documents,
    makeImage,
    credentials,
    accessToBuilt,
    builtBy: createBuiltBy(building.builds, config.builds.pullWait),
  });
  const findManifest = createManifestFinder(documents, registry);
  const blobs = createBlobFinder({
    content,
    registry,
    cache: createBlobCache({
      content,
      cachedBlobs,
      hosted: hostedStore,
      maxBytes: config.cacheBytes,
    }),
    modeOf: host => settingsOf(registries, host).blobs,
  });

  let isDraining = false;
  const ready = async () => {
    if (isDraining) throw new Error('the server is stopping');
    database.prepare('SELECT 1').get();
  };

  const metrics = createMetricsRegistry();
  const openapi = createOpenApi(deps.version.version);
  const { trustedProxies } = config;
  const { bodyBytes: maxBodyBytes } = config.limits;
  const meter = createPullMeter({
    counter: createPullCounter(),
    limiter: createLimiter('pulls'),
    rates: config.limits.pulls,
    usage,
  });

  const router = new Router<RequestState>();
  containerRoutes(router, {
    accept,
    tokens,
    accounts,
    maxBodyBytes,
    trustedProxies,
    limiter: createLimiter('container requests'),
    rates: config.limits.requests,
    buildLimiter: createLimiter('builds'),
    buildRates: config.limits.builds,
    usage,
    builds: building.builds,
  });
  const inspect = createInspect({
    bases,
    documents,
    credentials,
    urlOf: host => endpointOf(registries, host).origin,
  });
  buildRoutes(router, { ...building, accounts });
  inspectRoutes(router, { inspect, maxBodyBytes });
  metricsRoutes(router, { usage, accounts });
  serviceRoutes(router, { version: deps.version, ready, metrics, openapi });

  const koa = new Koa<RequestState>();
  // Whatever goes wrong is in the log already; Koa would print it besides, a client that leaves included.
  koa.silent = true;
  koa.use(outermost(log, createObserver(metrics)));
  koa.use(
    registryRoutes({
      prefix: config.prefix,
      served: { tokens, findImage, findManifest, blobs, registry, meter, trustedProxies },
      hosted: {
        ...hosted,
        content,
        auth: createRegistryAuth(
          hosted.keeper,
          new URL(tokenPath, publicUrl).href,
          hosted.tokens.service,
        ),
      },
      token: {
        keeper: hosted.keeper,
        tokens: hosted.tokens,
        servedPrefix: `${config.prefix}/`,
      },
    }),
  );
  koa.use(router.routes());
  koa.use(noRoute);

  building.builds.resume();
  const flushing = setInterval(() => usage.flush(), flushMs).unref();
  const purging = setInterval(() => tokens.purge(), purgeMs).unref();
  tokens.purge();
  const expiring = setInterval(
    () => {
      const { uploadLife } = config.hosted;
      hosted.uploads.expire(Date.now() - uploadLife).catch(err => log.error({ err }, 'uploads'));
    },
    Math.min(longestExpireMs, config.hosted.uploadLife),
  ).unref();
  const sweeping = startSweeping(
    signal =>
      sweep(
        { content, hosted: hostedStore, cachedBlobs, requests },
        { graceMs: config.sweep.grace, signal },
      ),
    config.sweep.interval,
    log,
  );

  return {
    koa,
    drain() {
      isDraining = true;
    },
    async close() {
      clearInterval(flushing);
      clearInterval(purging);
      clearInterval(expiring);
      await sweeping.stop();
      await building.close();
      usage.flush();
      await transport.close();
      database.close();
    },
  };
}

function noRoute(): never {
  throw new Fault('not-found', 'No such route: GET /docs lists them all', { phase: 'request' });
}
