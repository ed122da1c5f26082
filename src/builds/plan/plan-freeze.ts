import type { ImageChange } from '../../images/augment/index.ts';
import { imageDefinition } from '../../images/sif/definition/index.ts';
import { type Document, manifestType } from '../../oci/index.ts';
import { formatReference, type Reference } from '../../oci/naming.ts';
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
