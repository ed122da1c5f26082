import { maskAddresses } from '../../buildkit/index.ts';
import type { ImageChange } from '../../images/augment/image-change.ts';
import { changeDefinition } from '../../images/sif/definition/definition-change.ts';
import type { DefinitionRuntime } from '../../images/sif/definition/definition-runtime.ts';
import type { Digest } from '../../oci/digest.ts';
import { formatPlatform } from '../../oci/platform.ts';
import { parseReference } from '../../oci/reference.ts';
import { baseImagesOf } from '../recipe/dockerfile/base-images.ts';
import { readBuildSource } from '../recipe/read-source.ts';
import { recipeKindNamed } from '../recipe/recipe-kinds.ts';
import type { SubmittedBuild } from '../recipe/submitted.ts';
import { buildKey } from './build-key.ts';
import { type BuildOptionsWish, optionsInKey, readBuildOptions } from './build-options.ts';
import type { BuildPlan } from './build-plan.ts';
import { checkOnePlatform, readPlatforms } from './build-platforms.ts';
import { chooseFrontend, type FrontendSetting } from './frontend.ts';
import { imageName, type NameStrategy } from './image-name.ts';
import { contextOptions, readNamedContexts } from './named-contexts.ts';
import {
  compressionOption,
  readSifCompression,
  type SubmittedCompression,
} from './sif-compression.ts';

/** The fields of a container request that decide what is built. */
export interface BuildFields extends SubmittedBuild, BuildOptionsWish {
  readonly containerPlatform?: string | undefined;
  readonly buildRepository?: string | undefined;
  readonly cacheRepository?: string | undefined;
  readonly nameStrategy?: NameStrategy | undefined;
  readonly format?: 'docker' | 'sif' | undefined;
  readonly freeze?: boolean | undefined;
  /** Image by the name of an image or stage of the Dockerfile, which it takes the place of. */
  readonly namedContexts?: Readonly<Record<string, string>> | undefined;
  /** The %test of a definition file is not run. */
  readonly noTest?: boolean | undefined;
  readonly buildCompression?: SubmittedCompression | undefined;
  /** As it was sent: `isFiltered` where its `.dockerignore` is a file like others. */
  readonly buildContext?: { readonly isFiltered?: boolean | undefined } | undefined;
}

/** What is to be built. */
export interface BuildWish extends BuildFields {
  /** The build context, once it is verified. */
  readonly context?: SentContext | undefined;
}

/** A build context that is in the content store. */
export interface SentContext {
  /** Of its tar.gz file; of its manifest if it was uploaded as an artifact. */
  readonly digest: Digest;
  /** The same for the same files, however they were sent. */
  readonly tarDigest: string;
  readonly isUploaded?: true;
}

/** Settings of the server: where builds go when the request does not say, and what reads Dockerfiles. */
export interface BuildPlaces {
  /** `registry/path` */
  readonly repository: string;
  readonly cache: string | undefined;
  /** Default: `declared`. */
  readonly syntax?: FrontendSetting;
  /** Where frozen images go, by their format; none where the operator has named no repository for them. */
  readonly frozen: Readonly<Partial<Record<'docker' | 'sif', string>>>;
}

/** Returns the operator's repository for a frozen image whose request names none. */
export function frozenPlace(
  { buildRepository, freeze, format = 'docker' }: BuildWish,
  { frozen }: Pick<BuildPlaces, 'frozen'>,
): string | undefined {
  return freeze && buildRepository === undefined ? frozen[format] : undefined;
}

const defaultPlatform = 'linux/amd64';

/**
 * The plan of a build. Pure: the same wish gives the same plan, on every replica. Throws {@link Fault} (400).
 *
 * @param change what is baked into the image
 */
export function planBuild(
  wish: BuildWish,
  places: BuildPlaces,
  change: ImageChange = {},
): BuildPlan {
  const { nameStrategy, context, format } = wish;
  const parsed = readPlatforms(wish.containerPlatform ?? defaultPlatform);
  const source = readBuildSource(wish, parsed);
  const kind = recipeKindNamed(source.kind);
  const ownHost = parseReference(places.repository).registry;
  const recipe = kind.recipe(source, { ...wish, ownHost });
  const { dockerfile, files, lockStage, definition, sifBases: sifImages = {} } = recipe;
  if (format === 'sif') checkOnePlatform(parsed);
  const platforms = parsed.map(formatPlatform);
  const repository = wish.buildRepository ?? frozenPlace(wish, places) ?? places.repository;
  const namedContexts = readNamedContexts(wish.namedContexts);
  const compression = readSifCompression(wish.buildCompression, format);
  const options = readBuildOptions(wish, {
    isDockerfile: !kind.isGenerated,
    isSif: format === 'sif',
    hasRepository: wish.buildRepository !== undefined,
  });
  const { args: buildArgs = {}, target } = options;
  const isFiltered = context !== undefined && wish.buildContext?.isFiltered === true;
  const key = buildKey({
    ...{ source, platforms, repository, nameStrategy, format, frozenConfig: change },
    contextDigest: context?.tarDigest,
    options: {
      ...contextOptions(namedContexts),
      ...compressionOption(compression),
      ...argumentOptions(wish),
      ...optionsInKey(options),
      ...(isFiltered ? { dockerignore: 'off' } : {}),
    },
  });
  const pulled = parsed.map(platform => {
    const images = baseImagesOf(dockerfile, {
      ...{ platform, namedContexts: { ...namedContexts, ...sifImages }, buildArgs },
      ...(target === undefined ? {} : { target }),
    });
    return chooseFrontend(images, places.syntax ?? 'declared');
  });
  const bases = pulled.flatMap(choice => choice.bases);
  const baseImages = [...new Set(bases.map(({ reference }) => reference))];
  // Stages that the image does not need pull nothing, and nobody shows a right to what they begin with.
  const sifBases = Object.fromEntries(
    Object.entries(sifImages).filter(([, image]) => baseImages.includes(image)),
  );
  const frontend = pulled[0]?.frontend;
  return {
    key,
    target: imageName({ repository, key, source, strategy: nameStrategy }),
    origin: {
      kind: 'recipe',
      recipe: source.kind,
      dockerfile,
      files: Object.fromEntries(files),
      lockStage,
      platforms,
      baseImages,
      cache: wish.cacheRepository ?? places.cache,
      ...(frontend === undefined ? {} : { frontend }),
      ...(context ? { context: context.digest } : {}),
      ...(context?.isUploaded ? { isUploaded: true as const } : {}),
      ...(isFiltered ? { isFiltered: true as const } : {}),
      ...(Object.keys(namedContexts).length > 0 ? { namedContexts } : {}),
      ...(Object.keys(sifBases).length > 0 ? { sifBases } : {}),
      ...(Object.keys(options).length > 0 ? { options } : {}),
    },
    change,
    ...(format === 'sif'
      ? {
          sif: {
            definition: definition
              ? changeDefinition(definition.runtime, change)
              : dockerfileDefinition(dockerfile),
            ...(definition ? { warnings: definition.warnings } : {}),
            ...(compression ? { compression } : {}),
          },
        }
      : {}),
  };
}

/** The arguments of a Dockerfile or definition file, as the key has them. */
function argumentOptions({ buildArgs = {}, noTest }: BuildWish): Record<string, string> {
  const values = Object.entries(buildArgs).map(([name, value]) => [`arg:${name}`, value]);
  return { ...Object.fromEntries(values), ...(noTest ? { test: 'off' } : {}) };
}

/** What a Singularity image that is made with a Dockerfile says it is made from. */
function dockerfileDefinition(dockerfile: string): DefinitionRuntime {
  const lines = maskAddresses(dockerfile).trimEnd().split('\n');
  const text = `# Made with this Dockerfile:\n${lines.map(line => `# ${line}`.trimEnd()).join('\n')}\n`;
  return { text, headers: {}, labels: {} };
}
