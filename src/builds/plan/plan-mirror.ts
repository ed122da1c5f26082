import { splitDigest } from '../../oci/digest.ts';
import { type Document, manifestType } from '../../oci/index.ts';
import { formatReference, parseReference, type Reference } from '../../oci/naming.ts';
import { buildKey } from './build-key.ts';
import type { BuildPlan } from './build-plan.ts';

/** An image to copy. */
export interface MirroredImage extends Pick<Reference, 'registry' | 'repository'> {
  /** Undefined for an image that was requested by its digest. */
  readonly tag?: string | undefined;
  readonly base: Document;
}

/**
 * Returns the plan that copies an image as it is, under the path and tag that it has: `quay.io/team/app:1` to
 * `<place>/team/app:1`. An image by digest gets a tag of its own, and so no other tag moves.
 *
 * @param place `registry` or `registry/path`
 */
export function planMirror(
  place: string,
  { registry, repository, tag, base }: MirroredImage,
): BuildPlan {
  const { digest } = base;
  const source = { kind: 'image', digest } as const;
  const target = mirrorTarget(place, repository);
  const { hex } = splitDigest(digest);
  const name = formatReference({ ...target, tag: tag ?? `mirror-${hex.slice(0, 32)}` });
  const key = buildKey({
    source,
    platforms: [],
    repository: formatReference(target),
    options: { mirror: name },
  });
  return {
    key,
    target: name,
    origin: {
      kind: 'image',
      repository: formatReference({ registry, repository }),
      digest,
      mediaType: manifestType(base),
    },
    change: {},
    mirror: true,
  };
}

/** Returns where a repository is copied to. Throws {@link OciSyntaxError} for an invalid place, such as one with a tag. */
export function mirrorTarget(
  place: string,
  repository: string,
): Pick<Reference, 'registry' | 'repository'> {
  // A name without a path would be one at Docker Hub.
  const { registry, repository: path } = parseReference(`${place}/${repository}`);
  return { registry, repository: path };
}
