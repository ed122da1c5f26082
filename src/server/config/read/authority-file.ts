import { readFileSync } from 'node:fs';
import { whyUnreadable } from '../../../foundation/text/index.ts';
import { ConfigError } from '../config-error.ts';

/** Returns the PEM text of a setting that holds it, or the name of its file. Throws {@link ConfigError}. */
export function readAuthority(setting: string, ca: string): string {
  if (ca.includes('-----BEGIN')) return ca;
  try {
    return readFileSync(ca, 'utf8');
  } catch (cause) {
    throw new ConfigError(`${setting}.ca: the file ${ca} cannot be read: ${whyUnreadable(cause)}`, {
      cause,
    });
  }
}
