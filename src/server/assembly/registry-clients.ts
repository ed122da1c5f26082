import { createAccountCheck } from '../../hosted/accounts/account-check.ts';
import { createHosted } from '../../hosted/hosted-repositories.ts';
import { withOwnLogin } from '../../hosted/in-process/own-login.ts';
import { withOwnPusher } from '../../hosted/in-process/own-pusher.ts';
import { withOwnRegistry } from '../../hosted/in-process/own-registry.ts';
import { createAuthorizer } from '../../upstream/auth/authorizer.ts';
import { createFetchToken } from '../../upstream/auth/fetch-token.ts';
import { createCheckLogin } from '../../upstream/auth/login.ts';
import { createExchange } from '../../upstream/exchange/exchange.ts';
import { createPushClient } from '../../upstream/push-client.ts';
import { createRegistryClient } from '../../upstream/registry-client.ts';
import { endpointOf, settingsOf, withoutReach } from '../../upstream/registry-settings.ts';
import { createTransport } from '../../upstream/transport/transport.ts';
import {
  anonymousCredentials,
  configuredCredentials,
  configuredRegistries,
  uselessMirrorCredentials,
} from '../config/read/registries.ts';
import type { AppDeps } from './app-deps.ts';
import type { State } from './server-state.ts';
import { noteChanges, openAccounts } from './watched-accounts.ts';

/** Clients of other registries and of the hosted repositories. */
export type RegistryAccess = ReturnType<typeof createRegistries>;

const firstRetryMs = 250;
const longestRetryMs = 3000;

export function createRegistries(
  { config, publicUrl, dockerAuthConfig, log, proxyFor }: AppDeps,
  { content, slabs, hosted: store, rows, signingKey, audit, remotes }: State,
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
  // Image names may lead to private addresses of listed registries, layer URLs to those of listed hosts.
  const layerTransport = createTransport(
    withoutReach(settings),
    timeouts,
    config.layers.privateHosts,
    bounds,
  );
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
    health: remotes,
    onMirrorFailure: (mirror, registry, err) => {
      // A mirror has only some of the images of the registry.
      const level = err.status === 404 ? 'debug' : 'warn';
      log[level]({ mirror, registry, err }, 'a mirror failed: the next registry is used');
    },
  });
  const accountFiles = openAccounts(config, log, changes => {
    accountCheck.reset();
    noteChanges(audit, changes);
  });
  const { accounts } = accountFiles;
  const accountCheck = createAccountCheck(accounts);
  const ownHost = publicUrl.host;
  const hosted = createHosted({
    content,
    store,
    pulls: rows.pulls,
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
    settings,
    /** Credentials that the operator has listed. */
    credentials,
    /** Those of them that also serve callers without a login. */
    anonymousCredentials: anonymous,
    transport,
    layerTransport,
    /** Timeouts, limits and retries of every transport. */
    connecting: { timeouts, bounds, retry },
    proxies,
    accounts,
    accountFiles,
    accountCheck,
    ownHost,
    hosted,
    registry: withOwnRegistry(ownHost, hosted.registry, createRegistryClient(exchange)),
    pusher: withOwnPusher(ownHost, hosted.pusher, createPushClient(exchange, endpoint)),
    checkLogin: withOwnLogin(ownHost, hosted.keeper, createCheckLogin(transport, settings, retry)),
    fetchToken: createFetchToken(transport, settings, retry),
    urlOf: (host: string) => endpoint(host).origin,
    isPlainHttp: (host: string) => settingsOf(settings, host).plainHttp,
    modeOf: (host: string) => settingsOf(settings, host).blobs,
  };
}
