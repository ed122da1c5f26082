import { type BuildPlaces, frozenPlaces } from '../../builds/plan/index.ts';
import { dayMs } from '../../foundation/telemetry/counted.ts';
import { createBuiltInPlatform } from '../../platform/built-in/index.ts';
import { createIdentities, createPlatformClient } from '../../platform/index.ts';
import type { RegistryAccess } from './registry-clients.ts';
import type { AppDeps, State } from './server-state.ts';

/** Identities of callers, from platforms. */
export type People = ReturnType<typeof createPeople>;

const usualMails = { asked: 'never', errors: 'errors', always: 'always' } as const;

export function createPeople(
  { config, publicUrl, log }: AppDeps,
  { rows, secrets, remotes }: Pick<State, 'rows' | 'secrets' | 'remotes'>,
  registries: RegistryAccess,
  places: BuildPlaces,
) {
  const platform = createBuiltInPlatform({ rows, secrets });
  const client = createPlatformClient({
    settings: config.platform,
    own: { platform, address: new URL('/platform', publicUrl).href },
    registries: registries.settings,
    responseLifeMs: config.rightLife,
    connectMs: config.upstream.connectTimeout,
    idleMs: config.upstream.idleTimeout,
    proxies: registries.proxies,
    tokenPairs: rows.tokenPairs,
    // Tokens of a request are valid for the life of its container token; a waiting build may take a little longer.
    tokenPairsKeptMs: Math.max(config.tokenLife, config.tokens.maxLife) + dayMs,
    pairings: rows.pairings,
    box: secrets,
    log,
    health: remotes,
    environment: process.env,
  });
  const { mail } = config.messages;
  const identities = createIdentities({
    ...client,
    usualMail: mail.server === undefined ? undefined : usualMails[mail.builds],
    box: secrets,
    service: registries.credentials,
    anonymous: registries.anonymousCredentials,
    accounts: registries.accounts,
    hosted: {
      host: registries.ownHost,
      tokens: registries.hosted.tokens,
      anybody: registries.hosted.authenticator.anybody,
    },
    serviceRepositories: [places.repository, places.cache, ...frozenPlaces(places)].filter(
      name => name !== undefined,
    ),
  });
  return { platform, client, identities };
}
