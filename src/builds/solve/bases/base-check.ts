import { Fault } from '../../../foundation/fault.ts';
import type { LeafSource } from '../../../images/index.ts';
import type { Digest } from '../../../oci/digest.ts';
import type { Descriptor, Document } from '../../../oci/index.ts';
import { OciSyntaxError, parseReference, type Reference } from '../../../oci/naming.ts';
import type { CredentialSource } from '../../../upstream/auth/index.ts';
import {
  type Access,
  accessTo,
  findManifest,
  type RegistryClient,
} from '../../../upstream/index.ts';

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
export interface ServedBase extends LeafSource {
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
    if (isOurs) throw error.retold(message);
    throw new Fault('bad-request', message, { phase: 'build', cause: error });
  }
}
