import { z } from 'zod';
import { type Digest, isDigest } from './digest.ts';

const digestSchema = z.custom<Digest>(
  value => typeof value === 'string' && isDigest(value),
  'not a digest',
);

// Clients written in Go accept null for an absent member, so documents with null exist.
const textOrEmpty = z
  .string()
  .nullish()
  .transform(text => text ?? '');

/** A map of names to strings. Checked in one step, because a record schema takes 3 µs for each name. */
export const textMap = z.custom<Readonly<Record<string, string>>>(
  value =>
    typeof value === 'object' &&
    value !== null &&
    !Array.isArray(value) &&
    Object.values(value).every(text => typeof text === 'string'),
  'expected a map of names to strings',
);

/** Platform of an index entry. Source: OCI image specification image-index.md, `platform`. */
const platformSchema = z.looseObject({
  architecture: textOrEmpty,
  os: textOrEmpty,
  variant: z.string().nullish(),
  'os.version': z.string().nullish(),
});

/** Source: OCI image specification descriptor.md. Unknown members are kept. */
export const descriptorSchema = z.looseObject({
  // Old images lack it in places. It then says nothing, and what the content is decides.
  mediaType: textOrEmpty,
  digest: digestSchema,
  size: z.number().int().nonnegative(),
  urls: z.array(z.string()).nullish(),
  annotations: textMap.nullish(),
  artifactType: z.string().nullish(),
  platform: platformSchema.nullish(),
});

/** Media type, digest and size (bytes) of a piece of content. */
export type Descriptor = z.infer<typeof descriptorSchema>;
