import { readFileSync } from 'node:fs';
import { readTlsFiles, type TlsFiles } from '../../../buildkit/index.ts';
import type { BuilderShare } from '../../../builds/index.ts';
import { whyUnreadable } from '../../../foundation/fault.ts';
import { createSifSigner, type SifSigner } from '../../../images/sif/definition/index.ts';
import { ConfigError } from '../config-file.ts';
import type { Config } from '../settings-schema.ts';

/** Returns how much work builders get, by their configured address. Throws {@link ConfigError}. */
export function configuredBuilderShares(config: Config): ReadonlyMap<string, BuilderShare> {
  const entries = Object.entries(config.buildkitShares);
  for (const [address] of entries) {
    if (config.buildkit.includes(address)) continue;
    throw new ConfigError(
      `buildkitShares.${address}: no such builder; write the address as in 'buildkit'`,
    );
  }
  return new Map(entries);
}

/** Returns the TLS files of builders by address, all of them readable now. Throws {@link ConfigError}. */
export function configuredBuilderTls(config: Config): ReadonlyMap<string, TlsFiles> {
  const entries = Object.entries(config.buildkitTls);
  for (const [address, files] of entries) {
    if (!config.buildkit.includes(address)) {
      throw new ConfigError(
        `buildkitTls.${address}: no such builder; write the address as in 'buildkit'`,
      );
    }
    try {
      readTlsFiles(files);
    } catch (error) {
      throw new ConfigError(`buildkitTls.${address}: ${(error as Error).message}`);
    }
  }
  return new Map(entries);
}

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
