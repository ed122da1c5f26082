import type { ImageChange } from '../../images/augment/index.ts';
import { imageDefinition } from '../../images/sif/definition/index.ts';
import { splitDigest } from '../../oci/digest.ts';
import { type Document, manifestType } from '../../oci/index.ts';
import { formatReference, parseReference, type Reference } from '../../oci/naming.ts';
import { compressionOption, readSifCompression } from './build-compression.ts';
import { buildKey } from './build-key.ts';
import type { BuildPlan } from './build-plan.ts';
import { imageName } from './image-name.ts';
import type { BuildFields } from './plan.ts';

/** Returns the plan that copies an existing image to a repository, with the changes made in the image itself. */
export function planFreeze(
  { buildRepository: repository = '', nameStrategy, format, buildCompression }: BuildFields,
  image: Pick<Reference, 'registry' | 'repository'> & {
    /** Undefined for an image that was requested by its digest. */
    readonly tag?: string | undefined;
    readonly base: Document;
  },
  change: ImageChange,
): BuildPlan {
  const { digest } = image.base;
  const mediaType = manifestType(image.base);
  const { registry, repository: path, tag } = image;
  const source = { kind: 'image', digest } as const;
  const from = formatReference({ registry, repository: path });
  const isSif = format === 'sif';
  const compression = readSifCompression({ buildCompression, format });
  const named = tag === undefined ? from : formatReference({ registry, repository: path, tag });
  const key = buildKey({
    source,
    platforms: [],
    repository,
    nameStrategy,
    format,
    frozenConfig: change,
    // The definition in a Singularity image contains the name.
    ...(isSif ? { options: { from: named, ...compressionOption(compression) } } : {}),
  });
  const definition =
    tag === undefined
      ? imageDefinition(formatReference({ registry, repository: path, digest }))
      : imageDefinition(named, digest);
  return {
    key,
    target: imageName({ repository, key, source, strategy: nameStrategy }),
    origin: {
      kind: 'image',
      repository: from,
      digest,
      mediaType,
    },
    change,
    ...(isSif ? { sif: { definition, ...(compression ? { compression } : {}) } } : {}),
  };
}

/** An image to copy. */
interface MirroredImage extends Pick<Reference, 'registry' | 'repository'> {
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
