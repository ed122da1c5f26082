import type { ReplacedImage } from '../../../buildkit/index.ts';
import type {
  Documents,
  ImageToVerify,
  VerifiedImage,
  VerifyImage,
} from '../../../images/index.ts';
import type { Digest } from '../../../oci/digest.ts';
import {
  formatReference,
  type Platform,
  parsePlatform,
  parseReference,
} from '../../../oci/naming.ts';
import type { Access } from '../../../upstream/index.ts';
import type { RecipeOrigin } from '../../plan/build-plan.ts';
import { stagePlatforms } from '../../recipe/dockerfile/base-images.ts';
import { frontendImage } from '../../recipe/dockerfile/frontend-image.ts';
import type { BuildRights } from '../build-rights.ts';
import type { BuildRun } from '../build-run.ts';
import { aboutBase, type BaseCheckDeps, findBase } from './base-check.ts';

/** A verified image for the builder of one build. */
export interface OfferedImage extends Pick<ImageToVerify, 'access'>, VerifiedImage {
  /** Path of the repository in its name here. */
  readonly repository: string;
}

/** An image of this server that only the builder of one build gets. */
export interface Offer extends Disposable {
  /** Its full name, with the digest. */
  readonly name: string;
}

/** Serves a verified image under a name with a new token, until the offer ends. */
export type OfferImage = (image: OfferedImage) => Offer;

/** The base images of a build as its builder gets them: from this server. */
export interface PreparedBases extends Disposable {
  /** By their names in the recipe. */
  readonly images: Readonly<Record<string, ReplacedImage>>;
  /** The unpacked digests of the layers of each image that may be the base of the result. */
  readonly layers: readonly ReadonlySet<Digest>[];
  /** The repositories of all their layers, to which the caller has a right. */
  readonly blobs: ReadonlyMap<Digest, Access>;
}

/**
 * Verifies the base images of a recipe and offers them to the builder. Throws a `Fault` that names the image.
 */
export type PrepareBases = (
  run: Pick<BuildRun, 'log' | 'signal' | 'shown'>,
  rights: Pick<BuildRights, 'access'>,
  recipe: RecipeOrigin,
) => Promise<PreparedBases>;

interface PreparedBase extends Pick<VerifiedImage, 'diffIds' | 'layers'> {
  readonly access: Access;
  readonly image: ReplacedImage;
  readonly offer: Offer;
}

export interface PrepareBasesDeps extends BaseCheckDeps {
  readonly documents: Documents;
  readonly verify: VerifyImage;
  readonly offer: OfferImage;
  /** Returns the native platforms of the known builders. */
  readonly builderPlatforms: () => readonly string[];
}

export function createPrepareBases(deps: PrepareBasesDeps): PrepareBases {
  const { documents, verify, offer } = deps;

  const prepareOne = async (
    name: string,
    { log, signal, shown }: Pick<BuildRun, 'log' | 'signal' | 'shown'>,
    rights: Pick<BuildRights, 'access'>,
    recipe: RecipeOrigin,
  ): Promise<PreparedBase> => {
    const base = await findBase(name, deps, rights.access, shown);
    const { access, digest, mediaType, served } = base;
    return aboutBase(name, async () => {
      const root = served?.root ?? (await documents.manifest(access, digest, mediaType));
      let hasSaid = false;
      const image = {
        ...(served ?? { access, documents, owns: () => false }),
        root,
        platforms: basePlatforms(recipe, name, deps.builderPlatforms()),
      };
      const verified = await verify(image, signal, () => {
        if (!hasSaid) log.write(`The image ${name} is new here: its layers are verified.\n`);
        hasSaid = true;
      });
      const parsed = parseReference(name);
      const offered = offer({
        ...verified,
        access: image.access,
        repository: served?.repository ?? parsed.repository,
      });
      const shown = formatReference({ ...parsed, digest });
      const { diffIds, layers } = verified;
      const known = { access: image.access, diffIds, layers };
      return { image: { pulled: offered.name, shown }, offer: offered, ...known };
    });
  };

  return async (run, rights, recipe) => {
    using offers = new DisposableStack();
    const bases = await Promise.all(
      recipe.baseImages.map(async name => {
        const base = await prepareOne(name, run, rights, recipe);
        offers.use(base.offer);
        return { name, ...base };
      }),
    );
    const all = offers.move();
    return {
      images: Object.fromEntries(bases.map(({ name, image }) => [name, image])),
      layers: bases.flatMap(({ diffIds }) => diffIds),
      blobs: new Map(
        bases.flatMap(({ access, layers }) => layers.map(layer => [layer, access] as const)),
      ),
      [Symbol.dispose]: () => all.dispose(),
    };
  };
}

/**
 * Returns the platforms for which a builder may choose images of a base: those of the build, those that FROM asks for, and
 * for the image of a frontend those of the builders.
 *
 * @param builders native platforms of the builders, in the form `linux/amd64`
 */
function basePlatforms(
  recipe: RecipeOrigin,
  name: string,
  builders: readonly string[] = [],
): readonly Platform[] {
  const { dockerfile, options = {} } = recipe;
  const targets = recipe.platforms.map(parsePlatform);
  const native = builders.map(readPlatform);
  const common = {
    buildArgs: options.args ?? {},
    ...(options.target === undefined ? {} : { target: options.target }),
  };
  const asked = targets.flatMap(platform =>
    (native.length > 0 ? native : [platform]).flatMap(builderPlatform =>
      stagePlatforms(dockerfile, { ...common, platform, builderPlatform }),
    ),
  );
  const isFrontend = name === frontendOf(recipe);
  return [...targets, ...asked.map(readPlatform), ...(isFrontend ? native : [])];
}

/** Returns the full name of the image that reads the Dockerfile. */
function frontendOf({ frontend, dockerfile }: RecipeOrigin): string | undefined {
  const reference = frontend ?? frontendImage(dockerfile)?.reference;
  return reference === undefined || reference === 'builder'
    ? undefined
    : formatReference(parseReference(reference));
}

// Builders accept more platforms than images can be built for.
function readPlatform(text: string): Platform {
  const parts = text.toLowerCase().split('/');
  const [os = '', architecture = '', variant] = parts.length === 1 ? ['linux', ...parts] : parts;
  return { os, architecture, ...(variant === undefined ? {} : { variant }) };
}
