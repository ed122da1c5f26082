import { isUnwritable } from '../../foundation/fault.ts';
import type { RemoteHealth } from '../../foundation/telemetry/index.ts';
import {
  createAccountCheck,
  createHosted,
  withOwnLogin,
  withOwnPusher,
  withOwnRegistry,
} from '../../hosted/index.ts';
import { createLayerProofs, createVerifyImage, type ProvedLayer } from '../../images/index.ts';
import {
  createBlobCache,
  createBlobRelays,
  createRelayedBlobs,
  createTransfers,
} from '../../pull/index.ts';
import type { SlabPool } from '../../storage/content/index.ts';
import {
  createAuthorizer,
  createCheckLogin,
  createExchange,
  createFetchToken,
  createPushClient,
  createRegistryClient,
  createTransport,
  endpointOf,
  openWhole,
  settingsOf,
  withoutReach,
} from '../../upstream/index.ts';
import {
  anonymousCredentials,
  configuredCredentials,
  configuredRegistries,
  uselessMirrorCredentials,
} from '../config/read/index.ts';
import { createAnnouncer } from './messages.ts';
import type { AppDeps, State } from './server-state.ts';
import { noteChanges, openAccounts } from './watched-accounts.ts';

/** What the clients of registries need of the state. A server that does not lead has less. */
type RegistryState = Pick<
  State,
  'content' | 'slabs' | 'hosted' | 'keptUploads' | 'rows' | 'signingKey' | 'remotes'
> & { readonly audit: Pick<State['audit'], 'add'> };

/** Clients of other registries and of the hosted repositories. */
export type RegistryAccess = ReturnType<typeof createRegistries>;

export function createRegistries(
  deps: AppDeps,
  { content, slabs, hosted: store, keptUploads, rows, signingKey, audit, remotes }: RegistryState,
) {
  const { config, publicUrl, log } = deps;
  const upstream = createUpstream(deps, slabs, remotes);
  const { settings, transport, exchange, connecting } = upstream;
  const { timeouts, bounds, retry } = connecting;
  // Image names may lead to private addresses of listed registries, layer URLs to those of listed hosts.
  const layerTransport = createTransport(
    withoutReach(settings),
    timeouts,
    config.layers.privateHosts,
    bounds,
  );
  const accountFiles = openAccounts(config, log, changes => {
    accountCheck.reset();
    noteChanges(audit, changes);
  });
  const { accounts } = accountFiles;
  const accountCheck = createAccountCheck(accounts);
  const ownHost = publicUrl.host;
  const announce = createAnnouncer(deps);
  const hosted = createHosted({
    announce,
    content,
    store,
    pulls: rows.pulls,
    uploads: rows.uploads,
    keptUploads,
    isCurrent: rows.isCurrent,
    accounts,
    accountCheck,
    hasAccountFiles: config.accountFiles.length > 0,
    anonymous: config.hosted.anonymous,
    limits: config.hosted,
    contexts: { ...config.anonymous, ...config.hosted },
    signingKey,
    servedPrefix: `${config.prefix}/`,
    host: ownHost,
  });
  const endpoint = (host: string) => endpointOf(settings, host);
  return {
    ...upstream,
    layerTransport,
    accounts,
    accountFiles,
    accountCheck,
    ownHost,
    announce,
    hosted,
    registry: withOwnRegistry(ownHost, hosted.registry, upstream.registry),
    pusher: withOwnPusher(ownHost, hosted.pusher, createPushClient(exchange, endpoint)),
    checkLogin: withOwnLogin(
      ownHost,
      hosted.authenticator,
      createCheckLogin(transport, settings, retry),
    ),
    fetchToken: createFetchToken(transport, settings, retry),
    urlOf: (host: string) => endpoint(host).origin,
  };
}

export type UpstreamDeps = Pick<
  AppDeps,
  'config' | 'publicUrl' | 'dockerAuthConfig' | 'log' | 'proxyFor'
>;

const firstRetryMs = 250;
const longestRetryMs = 3000;

/** Returns the clients of other registries, with the settings of the configuration. */
export function createUpstream(
  { config, publicUrl, dockerAuthConfig, log, proxyFor }: UpstreamDeps,
  slabs: SlabPool,
  health: RemoteHealth,
) {
  const settings = configuredRegistries(config, publicUrl);
  const credentials = configuredCredentials(settings, config, dockerAuthConfig);
  const anonymous = anonymousCredentials(settings, credentials);
  for (const { setting, why } of uselessMirrorCredentials(settings)) log.warn({ setting }, why);
  const { upstream } = config;
  const timeouts = {
    connectMs: upstream.connectTimeout,
    headersMs: upstream.headersTimeout,
    idleMs: upstream.idleTimeout,
  };
  const proxies = { proxyFor, proxyNames: upstream.proxyNames };
  const bounds = { slabs, connections: upstream.connections, ...proxies };
  const transport = createTransport(settings, timeouts, [], bounds);
  const retry = {
    attempts: upstream.attempts,
    firstDelayMs: firstRetryMs,
    longestDelayMs: longestRetryMs,
  };
  const exchange = createExchange({
    transport,
    authorizer: createAuthorizer(transport, settings, config.rightLife, retry),
    registries: settings,
    // A mirror serves all callers.
    mirrorCredentials: anonymous,
    retry,
    health,
    onMirrorFailure: (mirror, registry, err) => {
      // A mirror has only some of the images of the registry.
      const level = err.status === 404 ? 'debug' : 'warn';
      log[level]({ mirror, registry, err }, 'a mirror failed: the next registry is used');
    },
  });
  return {
    settings,
    /** Credentials that the operator has listed. */
    credentials,
    /** Those of them that also serve callers without a login. */
    anonymousCredentials: anonymous,
    transport,
    exchange,
    registry: createRegistryClient(exchange),
    /** Timeouts, limits and retries of every transport. */
    connecting: { timeouts, bounds, retry },
    proxies,
    isPlainHttp: (host: string) => settingsOf(settings, host).plainHttp,
    modeOf: (host: string) => settingsOf(settings, host).blobs,
  };
}

/** Blobs of other registries: the copies that are kept here, and those that are passed on. */
type BlobParts = ReturnType<typeof createBlobParts>;

export function createBlobParts(
  { config }: Pick<AppDeps, 'config'>,
  { content, cachedBlobs }: State,
  { registry }: RegistryAccess,
) {
  const transfers = createTransfers(content);
  return {
    cache: createBlobCache({ content, cachedBlobs, transfers, maxBytes: config.cacheBytes }),
    relayed: createRelayedBlobs({
      registry,
      relays: createBlobRelays(transfers, config.cacheBytes),
      stallMs: config.upstream.stallTimeout,
      trustMs: config.upstream.trust,
    }),
  };
}

/** Returns the function that verifies base images. What it reads is kept, so that builders get it from here. */
export function createVerifyBases(
  { config }: Pick<AppDeps, 'config'>,
  { content, rows }: State,
  { registry, ownHost }: RegistryAccess,
  { cache, relayed }: BlobParts,
) {
  const openLayer = async ({ access, layer, isOwn }: ProvedLayer, signal: AbortSignal) => {
    const { digest, size } = layer;
    if (isOwn) return content.open(digest, 0, size - 1);
    if (access.registry === ownHost) return openWhole(registry, access, layer, signal);
    try {
      const opening = relayed.opening({ access, digest, size });
      const reader = await cache.join(access, digest, opening, signal);
      return reader.read(0, reader.size - 1);
    } catch (error) {
      // A build continues if no copy can be kept.
      if (!isUnwritable(error)) throw error;
      return openWhole(registry, access, layer, signal);
    }
  };
  const lifeMs = config.rightLife;
  return createVerifyImage(
    createLayerProofs({ registry, store: rows.verifiedLayers, openLayer, lifeMs }),
  );
}
