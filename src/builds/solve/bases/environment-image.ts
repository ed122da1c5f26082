import { environmentPrefix } from '../../../conda/index.ts';
import type { InjectedLayer } from '../../../images/augment/index.ts';
import type { Documents, ImageMaker, ImageToVerify, VerifyImage } from '../../../images/index.ts';
import type { Document } from '../../../oci/index.ts';
import type { Platform } from '../../../oci/naming.ts';
import type { Access } from '../../../upstream/index.ts';
import type { OfferImage } from './prepare-bases.ts';

/** Name of the image of an environment in recipes. No registry has it. */
export const environmentImage = 'sluice.invalid/environment:1';

/** Lets BuildKit pull an environment by its name where a recipe names {@link environmentImage}. */
export const environmentAt = (pulled: string) => ({
  [environmentImage]: { pulled, shown: 'the environment' },
});

/** A base image for one platform. */
export interface EnvironmentBase {
  readonly platform: Platform;
  readonly access: Access;
  /** Its manifest. */
  readonly base: Document;
}

/** An image for a builder, until it is disposed of. */
export interface EnvironmentImage extends Disposable {
  /** Its name at this server, with its digest. */
  readonly name: string;
  /** Its manifest. */
  readonly root: Document;
}

/** Makes the image of a base and layers of packages, which only the build of the caller gets. */
export type OfferEnvironment = (
  base: EnvironmentBase,
  layers: readonly InjectedLayer[],
  signal: AbortSignal,
) => Promise<EnvironmentImage>;

export interface EnvironmentImageDeps {
  readonly makeImage: ImageMaker;
  readonly documents: Documents;
  readonly verify: VerifyImage;
  readonly offer: OfferImage;
}

export function createOfferEnvironment(deps: EnvironmentImageDeps): OfferEnvironment {
  const { documents } = deps;
  return async ({ platform, access, base }, layers, signal) => {
    const change = { layers, env: [`CONDA_PREFIX=${environmentPrefix}`] };
    const { root, generated } = await deps.makeImage(access, base, change);
    const made = new Map(layers.map(({ gzipDigest, tarDigest }) => [gzipDigest, tarDigest]));
    const own = new Set<string>([...generated.keys(), ...made.keys()]);
    const image: ImageToVerify = {
      root,
      access,
      platforms: [platform],
      owns: digest => own.has(digest),
      // An environment may have gigabytes, which would be unpacked for each builder.
      made: digest => made.get(digest),
      // No registry has what was written for it.
      documents: {
        manifest: async (of, digest, mediaType) =>
          generated.get(digest) ?? documents.manifest(of, digest, mediaType),
        config: async (of, config) => generated.get(config.digest) ?? documents.config(of, config),
      },
    };
    const verified = await deps.verify(image, signal, () => {});
    const offered = deps.offer({ ...verified, access, repository: 'environment' });
    return { name: offered.name, root, [Symbol.dispose]: () => offered[Symbol.dispose]() };
  };
}
