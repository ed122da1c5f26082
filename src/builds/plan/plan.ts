import { maskAddresses } from '../../buildkit/index.ts';
import type { ImageChange } from '../../images/augment/index.ts';
import { changeDefinition, type DefinitionRuntime } from '../../images/sif/definition/index.ts';
import type { Digest } from '../../oci/digest.ts';
import {
  defaultPlatformName,
  formatPlatform,
  formatReference,
  parseReference,
} from '../../oci/naming.ts';
import { domainLabel } from '../domain.ts';
import { type CondaMaker, type CondaSource, packageUrlsIn } from '../recipe/conda/conda-source.ts';
import type { BuilderReach } from '../recipe/conda/install/builder-source.ts';
import {
  baseImagesOf,
  chooseFrontend,
  type FrontendSetting,
} from '../recipe/dockerfile/base-images.ts';
import type { Recipe } from '../recipe/recipe-kind.ts';
import { readBuildSource, recipeKindNamed } from '../recipe/recipe-kinds.ts';
import type { SubmittedBuild } from '../recipe/submitted.ts';
import {
  compressionOption,
  layersOption,
  nativeCompression,
  readLayerCompression,
  readSifCompression,
  type SubmittedCompression,
} from './build-compression.ts';
import { buildKey } from './build-key.ts';
import {
  checkOnePlatform,
  contextOptions,
  optionsInKey,
  readBuildOptions,
  readNamedContexts,
  readPlatforms,
  type SubmittedOptions,
} from './build-options.ts';
import type { BuildPlan } from './build-plan.ts';
import { imageName, type NameStrategy } from './image-name.ts';

/** The fields of a container request that decide the result of a build. */
export interface BuildFields extends SubmittedBuild, SubmittedOptions {
  readonly containerPlatform?: string | undefined;
  readonly buildRepository?: string | undefined;
  readonly cacheRepository?: string | undefined;
  readonly nameStrategy?: NameStrategy | undefined;
  readonly format?: 'docker' | 'sif' | undefined;
  readonly freeze?: boolean | undefined;
  /** True to copy the image as it is to `buildRepository`. */
  readonly mirror?: boolean | undefined;
  /** True to freeze to the default repository where `buildRepository` names none. */
  readonly defaultRepository?: boolean | undefined;
  /** Images by the name of the image or stage of the Dockerfile that they replace. */
  readonly namedContexts?: Readonly<Record<string, string>> | undefined;
  /** True to skip the %test of a definition file. */
  readonly noTest?: boolean | undefined;
  readonly buildCompression?: SubmittedCompression | undefined;
  /** The build context as it was sent: `isFiltered` where its `.dockerignore` is an ordinary file. */
  readonly buildContext?: { readonly isFiltered?: boolean | undefined } | undefined;
}

/** The build to plan. */
export interface PlanRequest extends BuildFields {
  /** The build context, after it was verified. */
  readonly context?: SentContext | undefined;
  /** The trust domain whose builds share cache mounts with this one; undefined if only builds with the same key do. */
  readonly mountsOf?: string | undefined;
}

/** A build context in the content store. */
export interface SentContext {
  /** Digest of its tar.gz file; of its manifest if it was uploaded as an artifact. */
  readonly digest: Digest;
  /** The same for equal files, however they were sent. */
  readonly tarDigest: string;
  readonly isUploaded?: true;
}

/** Settings of the server: default repositories of builds, and the frontend for Dockerfiles. */
export interface BuildPlaces {
  /** `registry/path` */
  readonly repository: string;
  readonly cache: string | undefined;
  /** Default: `declared`. */
  readonly syntax?: FrontendSetting;
  /** Default: `auto`. */
  readonly conda?: CondaMaker;
  /** The Conda channels and Python indexes of the configuration. Default: none. */
  readonly condaChannels?: BuilderReach;
  /** Whether packages of pip can be installed without a builder: uv may come while the server runs. Default: no. */
  readonly solvesPython?: () => boolean;
  /** True if the builds of one known owner share the content of cache mounts. Default: false. */
  readonly sharesMounts?: boolean;
  /** Default repositories of frozen images, by format; absent where the operator has set none. */
  readonly frozen: FrozenPlaces;
  /** Those of a local server, for requests that ask for the default repository. */
  readonly local?: FrozenPlaces;
  /** True if such requests of users go to a repository of the user. */
  readonly homes?: boolean;
}

type FrozenPlaces = Readonly<Partial<Record<'docker' | 'sif', string>>>;

/** Returns the server's repository for a frozen image whose request names none. */
export function frozenPlace(
  { buildRepository, freeze, format = 'docker', defaultRepository }: PlanRequest,
  { frozen, local = {} }: Pick<BuildPlaces, 'frozen' | 'local'>,
): string | undefined {
  if (!freeze || buildRepository !== undefined) return undefined;
  return frozen[format] ?? (defaultRepository ? local[format] : undefined);
}

/** Returns all repositories of the server for frozen images. */
export function frozenPlaces({ frozen, local = {} }: BuildPlaces): readonly string[] {
  return [...Object.values(frozen), ...Object.values(local)];
}

/** The hosted repositories for frozen images on a local server whose operator has set none. */
export const localFrozenPaths = { docker: 'public/frozen', sif: 'public/sif' } as const;

/**
 * Returns the plan of a build. Pure: the same request gives the same plan, on every replica. Throws {@link Fault}
 * (400).
 *
 * @param change the changes to make in the image itself
 */
export function planBuild(
  request: PlanRequest,
  places: BuildPlaces,
  change: ImageChange = {},
): BuildPlan {
  const { nameStrategy, context, format } = request;
  const parsed = readPlatforms(request.containerPlatform ?? defaultPlatformName);
  const source = readBuildSource(request, parsed);
  const kind = recipeKindNamed(source.kind);
  const ownHost = parseReference(places.repository).registry;
  const { conda: condaMaker, condaChannels } = places;
  const hasContext = context !== undefined;
  const solvesPython = places.solvesPython?.();
  const askedLayers = readLayerCompression(request);
  const settings = { ownHost, condaMaker, condaChannels, solvesPython, hasContext };
  const recipe = kind.recipe(source, { ...request, ...settings, layers: askedLayers });
  const { dockerfile, files, lockStage, definition, sifBases: sifImages = {} } = recipe;
  if (format === 'sif') checkOnePlatform(parsed);
  const platforms = parsed.map(formatPlatform);
  const repository = request.buildRepository ?? frozenPlace(request, places) ?? places.repository;
  const namedContexts = readNamedContexts(request.namedContexts);
  const compression = readSifCompression(request);
  const layers = recipe.maker === 'native' ? nativeCompression(askedLayers) : askedLayers;
  const options = readBuildOptions(request, {
    isDockerfile: !kind.isGenerated,
    isSif: format === 'sif',
    hasRepository: request.buildRepository !== undefined,
  });
  const { args: buildArgs = {}, target } = options;
  const isFiltered = context !== undefined && request.buildContext?.isFiltered === true;
  const key = buildKey({
    source,
    maker: recipe.maker,
    platforms,
    repository,
    nameStrategy,
    format,
    frozenConfig: change,
    contextDigest: context?.tarDigest,
    options: {
      ...contextOptions(namedContexts),
      ...compressionOption(compression),
      ...layersOption(layers),
      ...argumentOptions(request),
      ...optionsInKey(options),
      ...(isFiltered ? { dockerignore: 'off' } : {}),
      ...mountOption(request, recipe.maker),
    },
  });
  const pulled = parsed.map(platform => {
    const images = baseImagesOf(dockerfile, {
      platform,
      namedContexts: { ...namedContexts, ...sifImages },
      buildArgs,
      ...(target === undefined ? {} : { target }),
    });
    return chooseFrontend(images, places.syntax ?? 'declared');
  });
  const bases = pulled.flatMap(choice => choice.bases);
  const native = recipe.maker === 'native' ? recipe.conda : undefined;
  const builderReasons = recipe.maker === 'buildkit' ? recipe.builderReasons : undefined;
  const pulledImages = new Set(bases.map(({ reference }) => reference));
  // Stages that the image does not require pull nothing, and nobody proves a right to their base images.
  const sifBases = Object.fromEntries(
    Object.entries(sifImages).filter(([, image]) => pulledImages.has(image)),
  );
  // No registry has the images of these names: delete() returns true for those that a stage requires.
  const sifFiles = Object.fromEntries(
    Object.entries(recipe.sifFiles ?? {}).filter(([name]) =>
      pulledImages.delete(formatReference(parseReference(name))),
    ),
  );
  // The package manager is not in a native image.
  const baseImages = [...pulledImages].filter(
    image => native === undefined || image !== native.options.mambaImage,
  );
  const frontend = pulled[0]?.frontend;
  return {
    key,
    target: imageName({ repository, key, source, strategy: nameStrategy }),
    origin: {
      kind: 'recipe',
      recipe: source.kind,
      dockerfile,
      ...(recipe.maker === 'buildkit' && recipe.original !== undefined
        ? { original: recipe.original }
        : {}),
      files: Object.fromEntries(files),
      lockStage,
      ...(native ? { native } : {}),
      ...(builderReasons ? { builderReasons } : {}),
      ...(recipe.warnings ? { warnings: recipe.warnings } : {}),
      platforms,
      baseImages,
      cache: request.cacheRepository ?? places.cache,
      ...(frontend === undefined ? {} : { frontend }),
      ...(context ? { context: context.digest } : {}),
      ...(context?.isUploaded ? { isUploaded: true as const } : {}),
      ...(isFiltered ? { isFiltered: true as const } : {}),
      ...(Object.keys(namedContexts).length > 0 ? { namedContexts } : {}),
      ...(Object.keys(sifBases).length > 0 ? { sifBases } : {}),
      ...(Object.keys(sifFiles).length > 0 ? { sifFiles } : {}),
      ...(recipe.shellless ? { shellless: recipe.shellless } : {}),
      ...(Object.keys(options).length > 0 ? { options } : {}),
      ...(layers ? { layers } : {}),
    },
    change,
    ...(format === 'sif'
      ? {
          sif: {
            definition: definition
              ? changeDefinition(definition.runtime, change)
              : native
                ? condaDefinition(native)
                : dockerfileDefinition(dockerfile),
            ...(definition ? { warnings: definition.warnings } : {}),
            ...(compression ? { compression } : {}),
          },
        }
      : {}),
  };
}

/** Returns the domain in the key, whose other builds can change the image: nobody else gets it. */
function mountOption({ mountsOf }: PlanRequest, maker: Recipe['maker']): Record<string, string> {
  if (mountsOf === undefined || maker === 'native') return {};
  return { mounts: domainLabel({ name: mountsOf }) };
}

/** Returns the arguments of a Dockerfile or definition file in the form for the key. */
function argumentOptions({ buildArgs = {}, noTest }: PlanRequest): Record<string, string> {
  const values = Object.entries(buildArgs).map(([name, value]) => [`arg:${name}`, value]);
  return { ...Object.fromEntries(values), ...(noTest ? { test: 'off' } : {}) };
}

/** Returns the definition that a Singularity image made with a Dockerfile contains. */
function dockerfileDefinition(dockerfile: string): DefinitionRuntime {
  return commentDefinition('Made with this Dockerfile:', dockerfile);
}

/** Returns the definition that a Singularity image of Conda packages contains. */
function condaDefinition({ wanted, channels, options }: CondaSource): DefinitionRuntime {
  const packages =
    wanted.form === 'environment'
      ? wanted.packages
      : wanted.form === 'lockUrl'
        ? [wanted.url]
        : packageUrlsIn(wanted);
  const lines = [
    `base image ${options.baseImage}`,
    ...channels.map(channel => `channel ${channel}`),
    ...packages,
    ...options.basePackages,
  ];
  return commentDefinition('Made of these Conda packages:', lines.join('\n'));
}

function commentDefinition(title: string, text: string): DefinitionRuntime {
  const lines = [title, ...maskAddresses(text).trimEnd().split('\n')];
  return {
    text: `${lines.map(line => `# ${line}`.trimEnd()).join('\n')}\n`,
    headers: {},
    labels: {},
  };
}
