import { readFileSync } from 'node:fs';
import { whyUnreadable } from '../../../foundation/text/index.ts';
import { createSifSigner, type SifSigner } from '../../../images/sif/definition/index.ts';
import { ConfigError } from '../config-error.ts';

/** Returns the signer of Singularity images; undefined when none is configured. Throws {@link ConfigError}. */
export function configuredSifSigner(path: string | undefined): SifSigner | undefined {
  if (path === undefined) return undefined;
  let pem: string;
  try {
    pem = readFileSync(path, 'utf8');
  } catch (cause) {
    throw new ConfigError(
      `sif.signingKey: the file ${path} cannot be read: ${whyUnreadable(cause)}`,
      {
        cause,
      },
    );
  }
  try {
    return createSifSigner(pem);
  } catch (error) {
    throw new ConfigError(`sif.signingKey: the file ${path} ${(error as Error).message}`);
  }
}
