import {
  type BaseLibc,
  ChannelFault,
  type CondaPackage,
  environmentPrefix,
  type ReportRepodata,
  type VirtualPackage,
  virtualPackages,
} from '../../../conda/index.ts';
import { Fault } from '../../../foundation/fault.ts';
import type { BaseResolver, Documents } from '../../../images/index.ts';
import {
  type Document,
  documentOf,
  manifestType,
  parseLossless,
  parseManifest,
  writeJson,
} from '../../../oci/index.ts';
import {
  formatPlatform,
  type Platform,
  parsePlatform,
  parseReference,
  type Reference,
} from '../../../oci/naming.ts';
import type { MixedLayers, WheelFile } from '../../../pypi/index.ts';
import { type Access, openWhole, type RegistryClient } from '../../../upstream/index.ts';
import type { RecipeOrigin } from '../../plan/build-plan.ts';
import { pretendedCuda, subdirOf } from '../../recipe/conda/conda-platform.ts';
import type { CondaSource } from '../../recipe/conda/conda-source.ts';
import type { BuildRights } from '../build-rights.ts';
import type { BuildWheels } from '../wheels/build-wheels.ts';
import type { SourceToBuild, WheelEnvironment } from '../wheels/wheel-sources.ts';
import type { SolvedPlatform } from './builder-required.ts';
import type { CondaPackagesDeps } from './conda-packages.ts';
import { findFitting } from './fitting-python.ts';
import type { PythonParts } from './python-packages.ts';

/** The packages of an image, and the base image that they are for. */
export interface FoundSolution {
  readonly source: Access;
  readonly base: PlatformBase;
  readonly platforms: readonly FoundPlatform[];
}

export interface FoundPlatform extends SolvedPlatform {
  readonly platform: Platform;
  /** Packages of PyPI, which are installed after those of Conda. */
  readonly wheels: readonly WheelFile[];
  /** True for a base image with an environment of its own, which the packages replace. */
  readonly isReplaced: boolean;
}

/** A recipe that is made without a builder. */
export interface NativeOrigin extends RecipeOrigin {
  readonly native: CondaSource;
}

/**
 * Finds the packages of a recipe for each of its platforms. Throws a `Fault`, and `BuilderRequired` for packages of pip that
 * must be built.
 */
export type FindSolution = (
  recipe: NativeOrigin,
  rights: Pick<BuildRights, 'access'>,
  options: FindOptions,
) => Promise<FoundSolution>;

export interface FindOptions {
  /** Receives lines. */
  readonly log: (line: string) => void;
  readonly report?: ReportRepodata | undefined;
  readonly signal: AbortSignal;
  /** True for a caller without a login. Users wait for one of these at most. */
  readonly isAnonymous?: boolean | undefined;
  /** Default: packages without a wheel require a builder for the whole image. */
  readonly buildWheels?: BuildWheels | undefined;
}

export interface FindSolutionDeps
  extends CondaPackagesDeps,
    PlatformBaseDeps,
    ImageSystemDeps,
    PythonParts {
  readonly layers: Pick<MixedLayers, 'check'>;
}

export function createFindSolution(deps: FindSolutionDeps): FindSolution {
  return async (
    { native, platforms },
    rights,
    { log, report, signal, isAnonymous, buildWheels },
  ) => {
    const reference = parseReference(native.options.baseImage);
    const source = await rights.access(reference);
    const parsed = platforms.map(parsePlatform);
    const base = await platformBase(deps, source, reference, parsed);
    const cuda = pretendedCuda(specsOf(native));
    const found: FoundPlatform[] = [];
    for (const [at, document] of base.images.entries()) {
      const platform = parsed[at];
      if (!platform) continue;
      const begin = performance.now();
      const image = { access: source, document, platform };
      const { virtualPackages, hasEnvironment } = await baseSystem(image, deps, {
        cuda,
        log,
        signal,
      });
      const subdir = subdirOf(platform);
      const system = { subdir, virtualPackages };
      let packages: readonly CondaPackage[];
      let wheels: readonly WheelFile[];
      try {
        const place = { platform, access: source, base: document, isReplaced: hasEnvironment };
        const options = {
          log,
          report,
          signal,
          isAnonymous,
          buildWheels:
            buildWheels &&
            ((sources: readonly SourceToBuild[], environment: WheelPlace) =>
              buildWheels(sources, { ...place, ...environment })),
        };
        ({ packages, wheels } = await findFitting(native, system, deps, options));
        deps.layers.check({ packages, wheels });
      } catch (cause) {
        const error = withDefaults(cause, native);
        throw parsed.length > 1 && error instanceof Fault
          ? error.withMessage(`${formatPlatform(platform)}: ${error.message}`)
          : error;
      }
      const seconds = ((performance.now() - begin) / 1000).toFixed(1);
      const python = wheels.length === 0 ? '' : ` and ${wheels.length} of PyPI`;
      log(
        `${formatPlatform(platform)}: ${packages.length} packages${python}, found in ${seconds} s`,
      );
      found.push({ platform, subdir, packages, wheels, isReplaced: hasEnvironment });
    }
    return { source, base, platforms: found };
  };
}

type WheelPlace = Pick<WheelEnvironment, 'packages' | 'target' | 'indexes'>;

/** Says where a package comes from that asks for a missing channel: callers do not see the default of `basePackages`. */
function withDefaults(error: unknown, { wanted, options }: CondaSource): unknown {
  if (!(error instanceof ChannelFault) || error.askedBy === undefined) return error;
  const named = `::${error.askedBy}`;
  const isDefault = options.basePackages.some(spec => spec.includes(named));
  const isAsked = wanted.form === 'environment' && wanted.packages.some(one => one.includes(named));
  return isDefault && !isAsked
    ? error.withMessage(
        `${error.message}, and is in 'packages.condaOpts.basePackages' (default: conda-forge::procps-ng): send another value, or an empty text for none`,
      )
    : error;
}

/** Returns the match specifications of a source with those that every image gets. */
export function specsOf({ wanted, options: { basePackages } }: CondaSource): readonly string[] {
  return wanted.form === 'environment' ? [...wanted.packages, ...basePackages] : basePackages;
}

/** A base image for some platforms. */
interface PlatformBase {
  /** The image of the only platform, or an index of the images of all platforms. */
  readonly root: Document;
  /** The image of each platform, in their order. */
  readonly images: readonly Document[];
}

interface PlatformBaseDeps {
  readonly bases: BaseResolver;
  readonly documents: Documents;
}

/** Finds a base image, without the platforms that nobody requested. Throws a {@link Fault} (400) for a missing platform. */
async function platformBase(
  { bases, documents }: PlatformBaseDeps,
  access: Access,
  reference: Reference,
  platforms: readonly Platform[],
): Promise<PlatformBase> {
  const root = await bases.resolve(access, reference);
  const images: Document[] = [];
  for (const platform of platforms) {
    images.push(await bases.select(access, reference, root, platform));
  }
  const [only = root, ...others] = images;
  if (others.length === 0) return { root: only, images };
  const index = indexOf(root, images);
  await documents.keep(index, access);
  return { root: index, images };
}

/** Returns the index with the entries of these images alone. */
function indexOf(root: Document, images: readonly Document[]): Document {
  const body = parseLossless(root.bytes, 'index');
  const parsed = parseManifest(root);
  const entries = parsed.kind === 'index' ? parsed.manifests : [];
  const raw = Array.isArray(body.manifests) ? body.manifests : [];
  const places = images.map(({ digest }) => entries.findIndex(entry => entry.digest === digest));
  return documentOf(
    writeJson({ ...body, manifests: places.map(place => raw[place]) }),
    manifestType(root),
  );
}

/** The base image of one platform. */
interface BaseImage {
  readonly access: Access;
  readonly document: Document;
  readonly platform: Platform;
}

interface ImageSystemDeps {
  readonly baseLibc: BaseLibc;
  readonly registry: RegistryClient;
}

interface ImageSystemOptions {
  /** Version of CUDA to simulate; undefined for none. */
  readonly cuda: string | undefined;
  readonly log: (line: string) => void;
  readonly signal: AbortSignal;
}

/** What decides which packages can be in an image, and how they are put into it. */
interface BaseSystem {
  readonly virtualPackages: readonly VirtualPackage[];
  /** True for a base image with an environment of conda at the path of that of the image. */
  readonly hasEnvironment: boolean;
}

/** Returns the system of a base image: its C library decides which packages run in it. Throws a `Fault`. */
async function baseSystem(
  { access, document, platform }: BaseImage,
  { baseLibc, registry }: ImageSystemDeps,
  { cuda, log, signal }: ImageSystemOptions,
): Promise<BaseSystem> {
  const manifest = parseManifest(document);
  const base = {
    digest: document.digest,
    name: `${access.registry}/${access.repository}`,
    layers: manifest.kind === 'manifest' ? manifest.layers : [],
    openLayer: (layer: Parameters<typeof openWhole>[2], stop: AbortSignal) =>
      openWhole(registry, access, layer, stop),
  };
  const { version, isAssumed, hasEnvironment } = await baseLibc.glibcOf(base, signal);
  if (isAssumed) {
    log(
      `${formatPlatform(platform)}: no glibc was found in the base image, so version ${version} is assumed`,
    );
  }
  if (hasEnvironment) {
    log(
      `${formatPlatform(platform)}: the base image has a Conda environment at ${environmentPrefix}, which the packages replace`,
    );
  }
  return {
    virtualPackages: virtualPackages({ subdir: subdirOf(platform), glibc: version, cuda }),
    hasEnvironment,
  };
}
