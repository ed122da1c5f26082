import type { BuilderShare } from '../../../builds/index.ts';
import { ConfigError } from '../config-error.ts';
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
