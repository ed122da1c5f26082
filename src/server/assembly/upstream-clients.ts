import type { RemoteHealth } from '../../foundation/telemetry/index.ts';
import type { SlabPool } from '../../storage/content/index.ts';
import {
  createAuthorizer,
  createExchange,
  createRegistryClient,
  createTransport,
  settingsOf,
} from '../../upstream/index.ts';
import {
  anonymousCredentials,
  configuredCredentials,
  configuredRegistries,
  uselessMirrorCredentials,
} from '../config/read/index.ts';
import type { AppDeps } from './app-deps.ts';

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
