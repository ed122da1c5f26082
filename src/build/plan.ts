import { Fault } from '../fault.ts';
import { inField } from '../field.ts';
import { formatPlatform, type Platform, parsePlatform } from '../oci/platform.ts';
import { buildKey } from './build-key.ts';
import type { BuildPlan } from './build-plan.ts';
import { imageName, type NameStrategy } from './image-name.ts';
import { type BaseImage, baseImagesOf } from './recipe/dockerfile/base-images.ts';
import { checkPlatforms } from './recipe/platform-fit.ts';
import { readBuildSource } from './recipe/read-source.ts';
import { recipeOf } from './recipe/recipe.ts';
import type { SubmittedBuild } from './recipe/submitted.ts';

/** What is asked for, as far as it decides what is built. */
export interface BuildWish extends SubmittedBuild {
  readonly containerPlatform?: string | undefined;
  readonly buildRepository?: string | undefined;
  readonly cacheRepository?: string | undefined;
  readonly nameStrategy?: NameStrategy | undefined;
}

/** Where builds go when the request does not say. */
export interface BuildPlaces {
  /** `registry/path` */
  readonly repository: string;
  readonly cache: string | undefined;
}

const defaultPlatform = 'linux/amd64';

/** The plan of a build. Pure: the same wish gives the same plan, on every replica. Throws {@link Fault} (400). */
export function planBuild(wish: BuildWish, places: BuildPlaces): BuildPlan {
  const source = readBuildSource(wish);
  const { dockerfile, files, lockStage } = recipeOf(source);
  const parsed = platformsOf(wish.containerPlatform ?? defaultPlatform);
  checkPlatforms(source, parsed);
  const platforms = parsed.map(formatPlatform);
  const repository = wish.buildRepository ?? places.repository;
  const { nameStrategy } = wish;
  const key = buildKey({ source, platforms, repository, nameStrategy });
  const bases = parsed.flatMap(platform => baseImagesOf(dockerfile, { platform }));
  checkFrontend(bases);
  return {
    key,
    target: imageName({ repository, key, source, strategy: nameStrategy }),
    dockerfile,
    files: Object.fromEntries(files),
    lockStage,
    platforms,
    baseImages: [...new Set(bases.map(({ reference }) => reference))],
    cache: wish.cacheRepository ?? places.cache,
  };
}

// The images in which Docker publishes the program that reads Dockerfiles.
const knownFrontend = /^docker\.io\/docker\/dockerfile(?:-upstream)?[:@]/;

/** Another program would run in the builder itself, and pull what nobody sees. */
function checkFrontend(bases: readonly BaseImage[]): void {
  const other = bases.find(
    ({ use, reference }) => use === 'syntax' && !knownFrontend.test(reference),
  );
  if (!other) return;
  throw new Fault(
    'bad-request',
    `The Dockerfile, line ${other.line}: the syntax ${other.reference} cannot be used here, only docker/dockerfile: take the line out, or name that`,
    { phase: 'request' },
  );
}

/** `linux/amd64,linux/arm64`: each once, in the order of their names. */
function platformsOf(text: string): Platform[] {
  const platforms = inField('containerPlatform', () =>
    text.split(',').map(part => parsePlatform(part.trim())),
  );
  const byName = new Map(platforms.map(platform => [formatPlatform(platform), platform]));
  return [...byName.keys()].sort().map(name => byName.get(name) as Platform);
}
