import { configuredCredentials, configuredRegistries } from '../config/registries.ts';
import { createHosted } from '../hosted/hosted.ts';
import { withOwnLogin } from '../hosted/own-login.ts';
import { withOwnPusher } from '../hosted/own-pusher.ts';
import { withOwnRegistry } from '../hosted/own-registry.ts';
import { createAuthorizer } from '../upstream/authorizer.ts';
import { createExchange } from '../upstream/exchange.ts';
import { createFetchToken } from '../upstream/fetch-token.ts';
import { createCheckLogin } from '../upstream/login.ts';
import { createPushClient } from '../upstream/push-client.ts';
import { createRegistryClient } from '../upstream/registry-client.ts';
import { endpointOf, settingsOf } from '../upstream/registry-settings.ts';
import { createTransport } from '../upstream/transport.ts';
import type { AppDeps } from './app-deps.ts';
import type { State } from './state.ts';

/** The registries there are: those of others, and the hosted repositories among them. */
export type RegistryAccess = ReturnType<typeof createRegistries>;

const firstRetryMs = 250;
const longestRetryMs = 3000;

export function createRegistries(
  { config, publicUrl, dockerAuthConfig }: AppDeps,
  { content, hosted: store, cachedBlobs, signingKey }: State,
) {
  const settings = configuredRegistries(config, publicUrl);
  const credentials = configuredCredentials(settings, config, dockerAuthConfig);
  const { upstream } = config;
  const transport = createTransport(
    settings,
    {
      connectMs: upstream.connectTimeout,
      headersMs: upstream.headersTimeout,
      idleMs: upstream.idleTimeout,
    },
    config.layers.privateHosts,
  );
  const exchange = createExchange({
    transport,
    authorizer: createAuthorizer(transport, settings),
    registries: settings,
    mirrorCredentials: credentials,
    retry: {
      attempts: upstream.attempts,
      firstDelayMs: firstRetryMs,
      longestDelayMs: longestRetryMs,
    },
  });
  const accounts = new Map(Object.entries(config.accounts));
  const ownHost = publicUrl.host;
  const hosted = createHosted({
    content,
    store,
    cachedBlobs,
    accounts,
    anonymous: config.hosted.anonymous,
    limits: config.hosted,
    signingKey,
    servedPrefix: `${config.prefix}/`,
    host: ownHost,
  });
  const endpoint = (host: string) => endpointOf(settings, host);
  return {
    settings,
    /** What the operator has listed. */
    credentials,
    transport,
    accounts,
    ownHost,
    hosted,
    registry: withOwnRegistry(ownHost, hosted.registry, createRegistryClient(exchange)),
    pusher: withOwnPusher(ownHost, hosted.pusher, createPushClient(exchange, endpoint)),
    checkLogin: withOwnLogin(ownHost, hosted.keeper, createCheckLogin(transport, settings)),
    fetchToken: createFetchToken(transport, settings),
    urlOf: (host: string) => endpoint(host).origin,
    isPlainHttp: (host: string) => settingsOf(settings, host).plainHttp,
    modeOf: (host: string) => settingsOf(settings, host).blobs,
  };
}
