import { LRUCache } from 'lru-cache';
import { type AugmentedImage, augment } from '../augment/augment.ts';
import { type ImageChange, isUnchanged } from '../augment/image-change.ts';
import type { Document } from '../oci/document.ts';
import type { Access } from '../upstream/authorizer.ts';
import type { Documents } from './documents.ts';

/** Makes what is served from a base and a change, and keeps what was made lately. */
export type ImageMaker = (
  access: Access,
  base: Document,
  change: ImageChange,
) => Promise<AugmentedImage>;

const keptImages = 1000;

export function createImageMaker(documents: Documents): ImageMaker {
  const made = new LRUCache<string, AugmentedImage>({ max: keptImages });
  return async (access, base, change) => {
    await documents.renew(base);
    if (isUnchanged(change)) return augment(base, new Map(), change);
    const key = `${base.digest} ${JSON.stringify(change)}`;
    const kept = made.get(key);
    const image = kept ?? augment(base, await documents.collect(access, base), change);
    // Kept as what they are: a later version, or an index that was sparse, must not change them.
    const keep = kept ? documents.renew : documents.keep;
    await Promise.all([...image.generated.values()].map(keep));
    made.set(key, image);
    return image;
  };
}
