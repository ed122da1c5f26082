import { type AugmentedImage, augment } from '../augment/augment.ts';
import { type ImageChange, isUnchanged } from '../augment/image-change.ts';
import { boundedCache } from '../bounded-cache.ts';
import type { Digest } from '../oci/digest.ts';
import type { Document } from '../oci/document.ts';
import type { Access } from '../upstream/authorizer.ts';
import type { Documents } from './documents.ts';

/** What is served from a base and a change. */
export interface MadeImage extends AugmentedImage {
  /** The documents that are known to belong to it: those that were written for it, and those its registry has shown. */
  readonly members: readonly Digest[];
}

/** Makes what is served from a base and a change, and keeps what was made lately. */
export type ImageMaker = (
  access: Access,
  base: Document,
  change: ImageChange,
) => Promise<MadeImage>;

const keptImages = 1000;

export function createImageMaker(documents: Documents): ImageMaker {
  const made = boundedCache<string, MadeImage>(keptImages);

  const make = async (access: Access, base: Document, change: ImageChange): Promise<MadeImage> => {
    const found = await documents.collect(access, base);
    const image = augment(base, found, change);
    return { ...image, members: [...new Set([...found.keys(), ...image.generated.keys()])] };
  };

  return async (access, base, change) => {
    await documents.renew(base, access);
    if (isUnchanged(change)) {
      return { ...augment(base, new Map(), change), members: [base.digest] };
    }
    // Another repository that has the base need not have what belongs to it.
    const { registry, repository } = access;
    const key = `${registry}/${repository}@${base.digest} ${JSON.stringify(change)}`;
    const kept = made.get(key);
    const image = kept ?? (await make(access, base, change));
    // Kept as what they are: a later version, or an index that was sparse, must not change them.
    const keep = kept ? documents.renew : documents.keep;
    await Promise.all([...image.generated.values()].map(document => keep(document, access)));
    made.set(key, image);
    return image;
  };
}
