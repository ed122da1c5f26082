import type { Logger, RemoteHealth } from '../foundation/telemetry/index.ts';
import type { PairingStore, SecretBox, TokenPairStore } from '../storage/rows/index.ts';
import { createTransport, type Registries, type TransportLimits } from '../upstream/index.ts';
import { type Carrier, createCallLine, createCalls } from './calls.ts';
import { createEcrLogin } from './credentials/ecr.ts';
import { createSelection, type Selection } from './credentials/selection.ts';
import { createEndpoints, type Endpoints } from './endpoint.ts';
import { createGrantCache } from './grants/grant-cache.ts';
import { createTokenPairs } from './grants/token-pairs.ts';
import { createPairing, type Pairing } from './pairing/pairing.ts';
import { createPairingKeys } from './pairing/pairing-keys.ts';
import { createRemotePlatform } from './remote-platform.ts';
import type { Grant, Platform } from './workflow-platform.ts';

/** All platforms that this server may call, including the one in this process. */
export interface PlatformClient {
  /** Serves every platform that a grant names. */
  readonly platform: Platform;
  readonly endpoints: Endpoints;
  readonly selection: Selection;
  readonly pairing: Pairing;
  /** Remove expired tokens and key pairs; each returns how many. */
  readonly purges: Readonly<Record<'pairs' | 'keys', (signal?: AbortSignal) => Promise<number>>>;
  close(): Promise<void>;
}

/** As in the configuration; times in milliseconds. */
export interface PlatformSettings {
  readonly url?: string | undefined;
  readonly allow: readonly string[];
  readonly aliases: Readonly<Record<string, string>>;
  readonly pairingToken?: string | undefined;
  readonly assumeRoles: boolean;
  readonly callsPerSecond: number;
  readonly callsPerHour: number;
  readonly timeout: number;
}

export interface PlatformClientDeps {
  readonly settings: PlatformSettings;
  /** The platform in this process, and its address. */
  readonly own: { readonly platform: Platform; readonly address: string };
  /** Provides the certificate authorities to trust for each host. */
  readonly registries: Registries;
  /** How long a platform's response is cached (ms). */
  readonly responseLifeMs: number;
  readonly connectMs: number;
  readonly idleMs: number;
  readonly proxies?: Pick<TransportLimits, 'proxyFor' | 'proxyNames'>;
  readonly tokenPairs: TokenPairStore;
  /** Retention of renewed tokens (ms): at least the maximum lifetime of a request that needs them */
  readonly tokenPairsKeptMs: number;
  readonly pairings: PairingStore;
  readonly box: SecretBox;
  readonly log: Logger;
  readonly health: RemoteHealth;
  /** Contains `AWS_ENDPOINT_URL` and similar variables, which redirect the AWS SDK. */
  readonly environment: Readonly<Record<string, string | undefined>>;
}

const retry = { attempts: 4, firstDelayMs: 300, longestDelayMs: 10_000 };
const longestWaitMs = 60_000;

export function createPlatformClient(deps: PlatformClientDeps): PlatformClient {
  const { settings, own, registries, box, log } = deps;
  const { timeout: timeoutMs } = settings;
  const endpoints = createEndpoints({
    own: own.address,
    byDefault: settings.url,
    allow: settings.allow,
    aliases: settings.aliases,
  });
  // A separate transport: hosts of platforms may have private addresses, but not for the requests of callers.
  const transport = createTransport(
    registries,
    { connectMs: deps.connectMs, headersMs: timeoutMs, idleMs: deps.idleMs },
    [...endpoints.hosts, ...awsHosts(deps.environment)],
    deps.proxies,
  );
  const keys = createPairingKeys({ store: deps.pairings, box });
  const token = settings.pairingToken;
  const pairing = createPairing({ endpoints, keys, token, timeoutMs, log });
  const carrier: Carrier = (endpoint, request) =>
    pairing.isPaired(endpoint) ? pairing.send(endpoint, request) : transport.send(request);
  const line = createCallLine({
    windows: [
      { count: settings.callsPerSecond, ms: 1000 },
      { count: settings.callsPerHour, ms: 3_600_000 },
    ],
    longestWaitMs,
  });
  const pairs = createTokenPairs({ store: deps.tokenPairs, box, keptMs: deps.tokenPairsKeptMs });
  const remote = createRemotePlatform({
    endpoints,
    calls: createCalls({ carrier, line, retry, timeoutMs, health: deps.health }),
    pairs,
    cache: createGrantCache(),
    pairingKey: keys.of,
    responseLifeMs: deps.responseLifeMs,
  });

  const at = ({ endpoint }: Grant) => (endpoints.resolve(endpoint).isOwn ? own.platform : remote);
  const platform: Platform = {
    user: async grant => at(grant).user(grant),
    credentials: async (grant, workspaceId) => at(grant).credentials(grant, workspaceId),
    keys: async (grant, id, workspaceId) => at(grant).keys(grant, id, workspaceId),
    run: async (grant, id, workspaceId) => at(grant).run(grant, id, workspaceId),
  };
  const ecr = createEcrLogin({ transport, assumeRoles: settings.assumeRoles });

  return {
    platform,
    endpoints,
    selection: createSelection({ platform, ecr }),
    pairing,
    purges: { pairs: pairs.purge, keys: keys.purge },
    async close() {
      pairing.close();
      await transport.close();
    },
  };
}

/** An operator who sets these variables also allows their addresses, private ones included. */
function awsHosts(environment: PlatformClientDeps['environment']): string[] {
  return Object.entries(environment)
    .filter(([name]) => /^AWS_ENDPOINT_URL(?:_ECR|_ECR_PUBLIC|_STS)?$/.test(name))
    .flatMap(([, value]) => URL.parse(value ?? '')?.host ?? []);
}
