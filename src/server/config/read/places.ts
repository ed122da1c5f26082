import type { BuildPlaces } from '../../../builds/plan/plan.ts';
import type { Config } from '../settings-schema.ts';

/** Returns the default destinations of images, for requests that specify none. */
export function configuredPlaces(
  { buildRepository, cacheRepository, freezeRepository, freezeSifRepository }: Config,
  publicUrl: URL,
): BuildPlaces {
  const sif = freezeSifRepository ?? freezeRepository;
  return {
    repository: buildRepository ?? `${publicUrl.host}/builds`,
    cache: cacheRepository,
    frozen: {
      ...(freezeRepository === undefined ? {} : { docker: freezeRepository }),
      ...(sif === undefined ? {} : { sif }),
    },
  };
}
