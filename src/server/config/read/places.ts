import { type BuildPlaces, localFrozenPaths } from '../../../builds/plan/index.ts';
import { pullRights } from '../../../hosted/accounts/index.ts';
import type { Config } from '../settings-schema.ts';
import { isLocal } from './access-in-force.ts';

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
