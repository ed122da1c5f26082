import { z } from 'zod';
import { type Digest, isDigest } from './digest.ts';

const digestSchema = z.custom<Digest>(
  value => typeof value === 'string' && isDigest(value),
  'not a digest',
);

// Clients written in Go take null for an absent member, so documents with null are in use.
const textOrEmpty = z
  .string()
  .nullish()
  .transform(text => text ?? '');

/** Platform of an index entry. Source: OCI image specification image-index.md, `platform`. */
const platformSchema = z.looseObject({
  architecture: textOrEmpty,
  os: textOrEmpty,
  variant: z.string().nullish(),
  'os.version': z.string().nullish(),
});

/** Source: OCI image specification descriptor.md. Unknown members are kept. */
export const descriptorSchema = z.looseObject({
  mediaType: z.string(),
  digest: digestSchema,
  size: z.number().int().nonnegative(),
  urls: z.array(z.string()).nullish(),
  annotations: z.record(z.string(), z.string()).nullish(),
  artifactType: z.string().nullish(),
  platform: platformSchema.nullish(),
});

/** Type, digest and size in bytes of some content. */
export type Descriptor = z.infer<typeof descriptorSchema>;
