import { z } from 'zod';
import { type Digest, isDigest } from './digest.ts';

export const digestSchema = z.custom<Digest>(
  value => typeof value === 'string' && isDigest(value),
  'not a digest',
);

/** Platform of an index entry. Source: OCI image specification image-index.md, `platform`. */
export const platformSchema = z.looseObject({
  architecture: z.string().default(''),
  os: z.string().default(''),
  variant: z.string().optional(),
  'os.version': z.string().optional(),
});

/** Source: OCI image specification descriptor.md. Unknown members are kept. */
export const descriptorSchema = z.looseObject({
  mediaType: z.string(),
  digest: digestSchema,
  size: z.number().int().nonnegative(),
  urls: z.array(z.string()).nullish(),
  annotations: z.record(z.string(), z.string()).nullish(),
  artifactType: z.string().optional(),
  platform: platformSchema.nullish(),
});

/** Type, digest and size in bytes of some content. */
export type Descriptor = z.infer<typeof descriptorSchema>;
