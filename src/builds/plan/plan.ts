import { maskAddresses } from '../../buildkit/index.ts';
import { Fault } from '../../foundation/fault.ts';
import type { ImageChange, InjectedLayer } from '../../images/augment/image-change.ts';
import {
  isDefinition,
  type TranslatedDefinition,
  translateDefinition,
} from '../../images/sif/definition/definition.ts';
import { changeDefinition } from '../../images/sif/definition/definition-change.ts';
import {
  type DefinitionRuntime,
  imageDefinition,
} from '../../images/sif/definition/definition-runtime.ts';
import type { Document } from '../../oci/document.ts';
import { isImage, manifestType, parseManifest } from '../../oci/manifest.ts';
import { formatPlatform, type Platform, parsePlatform } from '../../oci/platform.ts';
import { formatReference, parseReference, type Reference } from '../../oci/reference.ts';
import type { RecipeSource } from '../recipe/build-source.ts';
import { baseImagesOf } from '../recipe/dockerfile/base-images.ts';
import { checkPlatforms, subdirOf } from '../recipe/platform-fit.ts';
import { readBuildSource } from '../recipe/read-source.ts';
import type { Recipe } from '../recipe/recipe.ts';
import { recipeOf } from '../recipe/recipe-of.ts';
import type { SubmittedBuild } from '../recipe/submitted.ts';
import { refuse } from '../recipe/text/refuse.ts';
import { buildKey } from './build-key.ts';
import { type BuildOptionsWish, optionsInKey, readBuildOptions } from './build-options.ts';
import type { BuildPlan } from './build-plan.ts';
import { inField } from './field.ts';
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
  readonly context?: Pick<InjectedLayer, 'gzipDigest' | 'tarDigest'> | undefined;
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
  const source = readBuildSource(wish, parsed.map(subdirOf));
  const { dockerfile, files, lockStage, definition } = recipeIn(source, wish, places);
  checkPlatforms(source, parsed);
  if (format === 'sif') checkOnePlatform(parsed);
  const platforms = parsed.map(formatPlatform);
  const repository = wish.buildRepository ?? frozenPlace(wish, places) ?? places.repository;
  const namedContexts = readNamedContexts(wish.namedContexts);
  const sifBases = fullNames(definition?.sifBases ?? {});
  const compression = readSifCompression(wish.buildCompression, format);
  const options = readBuildOptions(wish, {
    what: source.kind === 'conda' ? 'packages' : definition ? 'definition' : 'Dockerfile',
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
      ...{ platform, namedContexts: { ...namedContexts, ...sifBases }, buildArgs },
      ...(target === undefined ? {} : { target }),
    });
    return chooseFrontend(images, places.syntax ?? 'declared');
  });
  const bases = pulled.flatMap(choice => choice.bases);
  const frontend = pulled[0]?.frontend;
  return {
    key,
    target: imageName({ repository, key, source, strategy: nameStrategy }),
    origin: {
      kind: 'recipe',
      dockerfile,
      ...(source.kind === 'conda' || definition ? { isGenerated: true } : {}),
      files: Object.fromEntries(files),
      lockStage,
      platforms,
      baseImages: [...new Set(bases.map(({ reference }) => reference))],
      cache: wish.cacheRepository ?? places.cache,
      ...(frontend === undefined ? {} : { frontend }),
      ...(context ? { context: context.gzipDigest } : {}),
      ...(isFiltered ? { isFiltered: true as const } : {}),
      ...(definition ? { followsLinks: true as const } : {}),
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

/** The plan of an image that is there already, to be put into a repository with a change baked into it. */
export function planFreeze(
  { buildRepository: repository = '', nameStrategy, format, buildCompression }: BuildWish,
  image: Pick<Reference, 'registry' | 'repository'> & {
    /** Undefined where it was asked for by its digest. */
    readonly tag?: string | undefined;
    readonly base: Document;
  },
  change: ImageChange,
): BuildPlan {
  const { digest } = image.base;
  const mediaType = manifestType(image.base);
  const { registry, repository: path, tag } = image;
  const source = { kind: 'image', digest } as const;
  const from = formatReference({ registry, repository: path });
  const isSif = format === 'sif';
  if (isSif) requireImage(image.base, from);
  const compression = readSifCompression(buildCompression, format);
  const named = tag === undefined ? from : formatReference({ registry, repository: path, tag });
  const key = buildKey({
    ...{ source, platforms: [], repository, nameStrategy, format },
    frozenConfig: change,
    // The definition in a Singularity image tells its name.
    ...(isSif ? { options: { from: named, ...compressionOption(compression) } } : {}),
  });
  const definition =
    tag === undefined
      ? imageDefinition(formatReference({ registry, repository: path, digest }))
      : imageDefinition(named, digest);
  return {
    key,
    target: imageName({ repository, key, source, strategy: nameStrategy }),
    origin: {
      kind: 'image',
      repository: from,
      digest,
      mediaType,
    },
    change,
    ...(isSif ? { sif: { definition, ...(compression ? { compression } : {}) } } : {}),
  };
}

function requireImage(base: Document, name: string): void {
  const manifest = parseManifest(base);
  if (manifest.kind === 'manifest' && isImage(manifest)) return;
  throw new Fault(
    'bad-request',
    `'containerImage': ${name} is an artifact, not a container image: a Singularity image is made of an image`,
    { phase: 'request' },
  );
}

/** The recipe of a source; a definition file of Singularity is one where a Singularity image is wanted. */
function recipeIn(
  source: RecipeSource,
  { format, buildArgs, noTest }: BuildWish,
  { repository }: BuildPlaces,
): Recipe & { definition?: TranslatedDefinition } {
  if (source.kind !== 'containerFile' || !isDefinition(source.text)) {
    if (noTest) {
      refuse("'noTest' is for Singularity definition files, and 'containerFile' is a Dockerfile");
    }
    return recipeOf(source);
  }
  if (format !== 'sif') {
    refuse(
      "'containerFile' is a Singularity definition file: set 'format' to sif, or send a Dockerfile",
    );
  }
  const definition = inField('containerFile', () =>
    translateDefinition(source.text, {
      ...{ buildArgs, runsTest: !noTest },
      ownHost: parseReference(repository).registry,
    }),
  );
  return { ...recipeOf({ ...source, text: definition.dockerfile }), definition };
}

/** Full names in place of names that may be short. */
function fullNames(images: Readonly<Record<string, string>>): Record<string, string> {
  const entries = Object.entries(images);
  return Object.fromEntries(
    entries.map(([name, image]) => [name, formatReference(parseReference(image))]),
  );
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

/** Throws {@link Fault} (400) for several. */
export function checkOnePlatform(platforms: readonly Platform[]): void {
  if (platforms.length === 1) return;
  throw new Fault(
    'bad-request',
    "'containerPlatform': a Singularity image is for one platform: make a request for each",
    { phase: 'request' },
  );
}

/** Reads `linux/amd64,linux/arm64`: each once, in the order of their names. Throws {@link Fault} (400). */
export function readPlatforms(text: string): Platform[] {
  const platforms = inField('containerPlatform', () =>
    text.split(',').map(part => parsePlatform(part.trim())),
  );
  const byName = new Map(platforms.map(platform => [formatPlatform(platform), platform]));
  return [...byName.keys()].sort().map(name => byName.get(name) as Platform);
}
