import type { Shares } from '../../../builds/index.ts';
import { type BuildPlaces, localFrozenPaths } from '../../../builds/plan/index.ts';
import { pullRights } from '../../../hosted/accounts/index.ts';
import type { AccessRules } from '../../../http/index.ts';
import { ConfigError } from '../config-file.ts';
import type { Config } from '../settings-schema.ts';
import { isLoopback } from './addresses.ts';

/**
 * Returns who may use what this server offers. When anonymous callers may reach the server, they build nothing by
 * default: a build runs the code that they send.
 */
export function accessRules(
  config: Pick<Config, 'access'> & Listening,
  publicUrl: URL,
): AccessRules {
  const { access } = config;
  return {
    requests: access.requests ?? 'open',
    builds: access.builds ?? (isLocal(config, publicUrl) ? 'open' : 'login'),
    pulls: access.pulls ?? 'open',
  };
}

type Listening = Pick<Config, 'listen' | 'local' | 'tls' | 'trustedProxies'>;

/** Returns true for a server that only its own machine can reach. Throws a {@link ConfigError} if `local` cannot be so. */
function isLocal({ listen, local, tls, trustedProxies }: Listening, publicUrl: URL): boolean {
  const addresses = tls.listen === undefined ? [listen] : [listen, tls.listen];
  const isForMachine = isLoopback(publicUrl.hostname) && trustedProxies === 0;
  if (local && !isForMachine) {
    throw new ConfigError(
      "'local' requires that the host of 'url' is a loopback address, such as 127.0.0.1, and that 'trustedProxies' is 0: who may use a server that others reach is for 'access' to say",
    );
  }
  return (
    isForMachine &&
    (local || addresses.every(address => isLoopback(address.slice(0, address.lastIndexOf(':')))))
  );
}

/**
 * Returns what the callers of builds share, and how much of it anonymous callers and one caller may use. By default
 * anonymous callers leave a permit and half of the queue to users. Where only this machine can reach the server,
 * callers without a login are its own people: they may use everything.
 */
export function configuredShares(
  config: Pick<Config, 'access' | 'builds'> & Listening,
  publicUrl: URL,
): { readonly concurrent: Shares; readonly waiting: Shares } {
  const { concurrent, maxWaiting, ...limits } = config.builds;
  // Without `access.builds`, builds are open on a local server only.
  const isLocal =
    config.access.builds === undefined && accessRules(config, publicUrl).builds === 'open';
  const kept = (all: number, usual: number) => (isLocal ? all : Math.max(1, usual));
  return {
    concurrent: {
      inAll: concurrent,
      ofOne: limits.concurrentPerCaller ?? concurrent,
      ofAnonymous: limits.concurrentAnonymous ?? kept(concurrent, concurrent - 1),
    },
    waiting: {
      inAll: maxWaiting,
      ofOne: limits.maxWaitingPerCaller,
      ofAnonymous: limits.maxWaitingAnonymous ?? kept(maxWaiting, Math.floor(maxWaiting / 2)),
    },
  };
}

/** Returns the default destinations of images, for requests that specify none. */
export function configuredPlaces(config: Config, publicUrl: URL): BuildPlaces {
  const { buildRepository, cacheRepository, freezeRepository, freezeSifRepository } = config;
  const { host } = publicUrl;
  return {
    repository: buildRepository ?? `${host}/builds`,
    cache: cacheRepository,
    frozen: byFormat(freezeRepository, freezeSifRepository ?? freezeRepository),
    homes: freezeRepository !== 'off',
    // Anonymous callers must not fill the disk: what is frozen stays.
    ...(isLocal(config, publicUrl) ? { local: localPlaces(config, publicUrl) } : {}),
  };
}

/** Returns the server's own repositories for frozen images, where the operator has set none and everybody may pull. */
function localPlaces(
  { freezeRepository, freezeSifRepository, hosted }: Config,
  { host }: URL,
): BuildPlaces['frozen'] {
  if (freezeRepository !== undefined) return {};
  const isOpen = pullRights(hosted.anonymous);
  const { docker, sif } = localFrozenPaths;
  const placeAt = (path: string) => (isOpen(path).includes('pull') ? `${host}/${path}` : undefined);
  return byFormat(placeAt(docker), freezeSifRepository === undefined ? placeAt(sif) : undefined);
}

function byFormat(docker: string | undefined, sif: string | undefined): BuildPlaces['frozen'] {
  return { ...placeAs('docker', docker), ...placeAs('sif', sif) };
}

function placeAs(format: 'docker' | 'sif', place: string | undefined) {
  return place === undefined || place === 'off' ? {} : { [format]: place };
}
