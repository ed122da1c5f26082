import { z } from 'zod';
import { OciSyntaxError, parseReference } from '../../oci/naming.ts';

/** `true` or `false`, also as text. */
export const flag = z.preprocess(
  value => (value === 'true' ? true : value === 'false' ? false : value),
  z.boolean('expected true or false'),
);

/** A whole number, 0 or more. */
export const count = z.coerce
  .number('expected a whole number')
  .int('expected a whole number')
  .nonnegative('expected a whole number');

/** The host of a registry, with its port. */
export const registryHost = z
  .string()
  .refine(
    text => /^[A-Za-z0-9.:[\]-]+$/.test(text) && URL.canParse(`https://${text}`),
    'expected the host of a registry, such as registry.example.com:5000',
  );

/** True for the name of an image. */
export function isImageName(text: string): boolean {
  try {
    parseReference(text);
    return true;
  } catch (error) {
    if (error instanceof OciSyntaxError) return false;
    throw error;
  }
}
