import type { AdapterSettings } from '../../../scans/index.ts';
import type { Config } from '../settings-schema.ts';
import { readAuthority } from './registries.ts';

/** Returns the scanner of images; undefined without one. Throws a `ConfigError`. */
export function configuredScanner({ scans }: Pick<Config, 'scans'>): AdapterSettings | undefined {
  const { adapter, authorization, ca, allowPrivateAddress } = scans;
  if (adapter === undefined) return undefined;
  return {
    ...{ address: new URL(adapter), authorization, allowPrivateAddress },
    ca: ca === undefined ? undefined : readAuthority('scans', ca),
  };
}
