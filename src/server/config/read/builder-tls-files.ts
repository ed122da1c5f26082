import { readTlsFiles, type TlsFiles } from '../../../buildkit/index.ts';
import { ConfigError } from '../config-error.ts';
import type { Config } from '../settings-schema.ts';

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
