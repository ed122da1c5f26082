import { Fault } from '../../../foundation/fault.ts';
import { triggersIn } from '../../../images/augment/index.ts';
import { type Documents, imageLeaves, type LeafSource } from '../../../images/index.ts';
import type { Digest } from '../../../oci/digest.ts';
import type { Descriptor, Document } from '../../../oci/index.ts';
import {
  OciSyntaxError,
  parsePlatform,
  parseReference,
  type Reference,
} from '../../../oci/naming.ts';
import type { CredentialSource } from '../../../upstream/auth/index.ts';
import {
  type Access,
  accessTo,
  findManifest,
  type RegistryClient,
} from '../../../upstream/index.ts';
import type { RecipeOrigin } from '../../plan/build-plan.ts';
import { maxImages, triggeredImages } from '../../recipe/dockerfile/base-images.ts';
import { malformed } from '../../recipe/dockerfile/instructions.ts';

/** A base image that its registry has shown to the caller. */
export interface ShownBase extends Pick<Descriptor, 'digest' | 'mediaType'> {
  /** Its name, as it was given. */
  readonly name: string;
  readonly access: Access;
  /** Tag or digest. */
  readonly reference: string;
  /** The image, for a name of a container request. */
  readonly served?: ServedBase | undefined;
}

/** Base images that registries have shown to one caller. */
export interface ShownBases {
  /** When the first of them was asked for, by `performance.now()`. */
  readonly at: number;
  readonly bases: readonly Pick<ShownBase, 'name' | 'digest' | 'mediaType'>[];
}

/** An image of this server that a build uses by the name of a container request, with the rights of that request. */
interface ServedBase extends LeafSource {
  readonly root: Document;
  /** Path of the repository in its name, without the token. */
  readonly repository: string;
  /** True if registries have shown all its parts without credentials. */
  readonly isPublic: boolean;
  /** Returns true for content that is here for this image. */
  owns(digest: Digest): boolean;
}

/** Returns the image of a served name; undefined for other names. Throws a {@link Fault} for a request that has ended. */
export type FindServedBase = (image: Reference) => Promise<ServedBase | undefined>;

export interface BaseCheckDeps {
  readonly registry: RegistryClient;
  readonly findServedBase?: FindServedBase | undefined;
}

/**
 * Checks that the caller may pull the base images: a builder that already has an image does not ask its registry again.
 * Throws a {@link Fault} that names the image: 400, or the status for a registry that does not answer.
 */
export async function checkBaseImages(
  references: readonly string[],
  deps: BaseCheckDeps,
  credentials: CredentialSource,
): Promise<readonly ShownBase[]> {
  const accessOf = (image: Reference) => accessTo(image, credentials);
  return Promise.all(references.map(reference => findBase(reference, deps, accessOf)));
}

// A build that begins at once has the images that its request was checked for.
const shownMs = 1000;

/**
 * Finds one base image, like {@link checkBaseImages}.
 *
 * @param shown images that were shown to the same caller; without effect after a second
 */
export function findBase(
  name: string,
  { registry, findServedBase = async () => undefined }: BaseCheckDeps,
  accessOf: (image: Reference) => Promise<Access>,
  shown?: ShownBases,
): Promise<ShownBase> {
  return aboutBase(name, async () => {
    const image = parseReference(name);
    const served = await findServedBase(image);
    if (served) {
      const { access, root } = served;
      const { digest, mediaType } = root;
      return { name, access, reference: digest, digest, mediaType, served };
    }
    const access = await accessOf(image);
    const reference = image.digest ?? image.tag ?? 'latest';
    const isFresh = shown !== undefined && performance.now() - shown.at < shownMs;
    const known = isFresh ? shown.bases.find(base => base.name === name) : undefined;
    const { digest, mediaType } = known ?? (await findManifest(registry, access, reference));
    return { name, access, reference, digest, mediaType };
  });
}

/** Does work for a base image. Its failures name the image. */
export async function aboutBase<T>(name: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof OciSyntaxError || error instanceof Fault)) throw error;
    const message = `The base image ${name} is unavailable: ${error.message}`;
    const isOurs = error instanceof Fault && error.status >= 500;
    if (isOurs) throw error.withMessage(message);
    throw new Fault('bad-request', message, { phase: 'build', cause: error });
  }
}

interface RecipeCheckDeps extends BaseCheckDeps {
  readonly documents: Pick<Documents, 'manifest' | 'config'>;
}

// Triggers of an image that a trigger names run, too.
const mostWaves = 5;

/**
 * Checks that the caller may pull all images of a recipe: its base images, and those that `ONBUILD` triggers of them pull.
 * Throws a `Fault` that names the image.
 */
export async function checkRecipeImages(
  recipe: RecipeOrigin,
  deps: RecipeCheckDeps,
  credentials: CredentialSource,
): Promise<readonly ShownBase[]> {
  const found = new Map<string, ShownBase>();
  let names: readonly string[] = recipe.baseImages;
  for (let wave = 0; names.length > 0; wave += 1) {
    if (wave === mostWaves || found.size + names.length > maxImages) {
      malformed(1, `its base images require more than ${maxImages} images by ONBUILD`);
    }
    const bases = await checkBaseImages(names, deps, credentials);
    for (const base of bases) found.set(base.name, base);
    const named = await Promise.all(bases.map(base => imagesTriggeredBy(base, recipe, deps)));
    names = [...new Set(named.flat())].filter(name => !found.has(name));
  }
  return [...found.values()];
}

/** Returns the images that the triggers of an image pull. */
async function imagesTriggeredBy(
  base: ShownBase,
  recipe: RecipeOrigin,
  { documents }: RecipeCheckDeps,
): Promise<readonly string[]> {
  const { name, access, digest, mediaType, served } = base;
  const { dockerfile, options = {}, sifBases = {}, native } = recipe;
  if (native || Object.values(sifBases).includes(name)) return [];
  return aboutBase(name, async () => {
    const source = served ?? { access, documents };
    const root = served?.root ?? (await documents.manifest(access, digest, mediaType));
    const platforms = recipe.platforms.map(parsePlatform);
    const leaves = await imageLeaves(source, root, platforms);
    const triggers = [...new Set(leaves.flatMap(({ config }) => triggersIn(config.bytes)))];
    return triggeredImages(triggers, dockerfile, {
      namedContexts: { ...recipe.namedContexts, ...sifBases },
      buildArgs: options.args ?? {},
      ...(options.target === undefined ? {} : { target: options.target }),
    });
  });
}
