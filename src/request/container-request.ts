import type { ImageChange } from '../images/augment/image-change.ts';
import type { Descriptor } from '../oci/descriptor.ts';
import type { Digest } from '../oci/digest.ts';
import type { Reference } from '../oci/reference.ts';
import type { Identity } from '../platform/identities.ts';
import type { ContainerToken } from './tokens/container-token.ts';

/** The caller, as far as it is known. */
export interface Caller extends Partial<Identity> {
  /** IP address. */
  readonly address: string;
  /** The network of the address, for callers without a login: its requests and content are limited. */
  readonly network?: string | undefined;
}

/** What an image name resolved to when it was requested, and what is served for it. */
export interface FixedImage {
  /** The manifest or index that is the base. */
  readonly base: ManifestName;
  readonly served: ManifestName;
  /** Manifests and configs that were written for it, or shown by its registry when it was asked for. */
  readonly members?: readonly Digest[];
}

export type ManifestName = Pick<Descriptor, 'mediaType' | 'digest'>;

/** Everything that a pull through the token needs. It never changes. */
export interface ContainerRequest {
  readonly token: ContainerToken;
  /** Tells requests apart in logs without giving access. */
  readonly label: string;
  /** ms since the epoch, as all times here. */
  readonly createdAt: number;
  readonly expiresAt: number;
  readonly caller: Caller;
  /** The image as it was requested, or as it is built. */
  readonly image: Reference;
  /** Id of the build of the image. */
  readonly buildId?: string | undefined;
  /** The request named a recipe, not an image. */
  readonly isBuilt?: boolean;
  /** The image is pushed to a repository under its own name: it is not served under the token. */
  readonly isFrozen?: boolean;
  /** What is served; undefined for an image that was not built yet when it was requested. */
  readonly fixed: FixedImage | undefined;
  readonly change: ImageChange;
  /** Registries have shown all of it without credentials, when it was requested. */
  readonly isPublic?: boolean;
  /** `host/prefix/token/repository[:tag|@digest]`, or the name of a frozen image. */
  readonly targetImage: string;
  readonly platform?: string | undefined;
  readonly fingerprint?: string | undefined;
  readonly timestamp?: string | undefined;
  /** One of the layers is a mounted file system: its pulls are counted apart. */
  readonly isMounted: boolean;
}
