import {
  createAccountCheck,
  createHosted,
  withOwnLogin,
  withOwnPusher,
  withOwnRegistry,
} from '../../hosted/index.ts';
import {
  createCheckLogin,
  createFetchToken,
  createPushClient,
  createTransport,
  endpointOf,
  withoutReach,
} from '../../upstream/index.ts';
import type { AppDeps } from './app-deps.ts';
import type { State } from './server-state.ts';
import { createUpstream } from './upstream-clients.ts';
import { noteChanges, openAccounts } from './watched-accounts.ts';

/** Clients of other registries and of the hosted repositories. */
export type RegistryAccess = ReturnType<typeof createRegistries>;

export function createRegistries(
  deps: AppDeps,
  { content, slabs, hosted: store, keptUploads, rows, signingKey, audit, remotes }: State,
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
  const hosted = createHosted({
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
