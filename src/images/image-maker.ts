import { hash } from 'node:crypto';
import { cacheOfBytes } from '../foundation/bounded-cache.ts';
import { Fault } from '../foundation/fault.ts';
import { pauseTurn } from '../foundation/pause-turn.ts';
import type { Digest } from '../oci/digest.ts';
import type { Document } from '../oci/index.ts';
import type { Access } from '../upstream/index.ts';
import {
  type AugmentedImage,
  augment,
  augmentInSteps,
  type ImageChange,
  isUnchanged,
} from './augment/index.ts';
import type { Documents } from './documents.ts';

/** The image that is served for a base and a change. */
export interface MadeImage extends AugmentedImage {
  /** Documents known to belong to the image: those written for it, and those its registry has shown. */
  readonly members: readonly Digest[];
}

/** Makes images from a base and a change, and caches recent ones. */
export type ImageMaker = (
  access: Access,
  base: Document,
  change: ImageChange,
) => Promise<MadeImage>;

const keptBytes = 32 * 1024 * 1024;
const mostWrittenBytes = 16 * 1024 * 1024;

export function createImageMaker(documents: Documents): ImageMaker {
  const made = cacheOfBytes<string, MadeImage>(keptBytes, sizeOfImage);

  const make = async (access: Access, base: Document, change: ImageChange): Promise<MadeImage> => {
    const found = await documents.collect(access, base);
    const image = await augmentInTurns(access, base, found, change);
    return { ...image, members: [...new Set([...found.keys(), ...image.generated.keys()])] };
  };

  return async (access, base, change) => {
    await documents.renew(base, access);
    if (isUnchanged(change)) {
      return { ...augment(base, new Map(), change), members: [base.digest] };
    }
    // Another repository that has the base may lack the documents that belong to it.
    const { registry, repository } = access;
    const changed = hash('sha256', JSON.stringify(change), 'base64url');
    const key = `${registry}/${repository}@${base.digest} ${changed}`;
    const kept = made.get(key);
    const image = kept ?? (await make(access, base, change));
    // Store the documents themselves: a later version of Sluice, or a once sparse index, must not change them.
    const keep = kept ? documents.renew : documents.keep;
    await Promise.all([...image.generated.values()].map(document => keep(document, access)));
    made.set(key, image);
    return image;
  };
}

/** Changes an index image by image, and lets other work run in between. */
async function augmentInTurns(
  { registry, repository }: Access,
  base: Document,
  found: ReadonlyMap<Digest, Document>,
  change: ImageChange,
): Promise<AugmentedImage> {
  const steps = augmentInSteps(base, found, change);
  let written = 0;
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
    written += value;
    if (written > mostWrittenBytes) {
      throw new Fault(
        'bad-request',
        `The index ${registry}/${repository} with the containerConfig has more than ${mostWrittenBytes} bytes in its manifests and configs: name one of its images by digest`,
        { phase: 'augment' },
      );
    }
    await pauseTurn();
  }
}

const memberBytes = 100;

function sizeOfImage({ root, generated, members }: MadeImage): number {
  const sizes = [...generated.values()].map(({ bytes }) => bytes.length + memberBytes);
  return sizes.reduce((sum, size) => sum + size, root.bytes.length + members.length * memberBytes);
}
