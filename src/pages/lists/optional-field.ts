import { z } from 'zod';

/** Returns the schema of a field that may be absent. An empty field of a form counts as absent. */
export function optional<S extends z.ZodType>(schema: S) {
  return z.preprocess(value => (value === '' ? undefined : value), schema.optional());
}
