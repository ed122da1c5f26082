import { isAbsolute, join, resolve } from 'node:path';
import {
  type AdapterSettings,
  findScannerProgram,
  type ProgramSettings,
} from '../../../scans/index.ts';
import { ConfigError } from '../config-file.ts';
import type { Config } from '../settings-schema.ts';
import { readAuthority } from './registries.ts';

/** A scanner of images: an adapter of another host, or a program of this machine. */
export type ConfiguredScanner =
  | { readonly adapter: AdapterSettings }
  | { readonly program: ProgramSettings };

/**
 * Returns the scanner of images; undefined without one. Throws a `ConfigError`.
 *
 * @param path `PATH`, where a program without a folder is searched
 */
export function configuredScanner(
  { scans, data, tokens, access }: Pick<Config, 'scans' | 'data' | 'tokens' | 'access'>,
  path = process.env.PATH ?? '',
): ConfiguredScanner | undefined {
  if (scans.required !== 'off' && (tokens.onlyFrozen !== 'off' || access.pulls === 'off')) {
    const other =
      access.pulls === 'off' ? 'access.pulls: off' : `tokens.onlyFrozen: ${tokens.onlyFrozen}`;
    throw new ConfigError(
      `scans.required and ${other} exclude each other: the server cannot hold back pulls of frozen images. Remove one of them`,
    );
  }
  const { adapter, program, authorization, allowPrivateAddress } = scans;
  const ca = scans.ca === undefined ? undefined : readAuthority('scans', scans.ca);
  if (adapter !== undefined && program !== undefined) {
    throw new ConfigError(
      'scans.adapter and scans.program are both set: one of them scans the images, remove the other',
    );
  }
  if (adapter !== undefined) {
    return { adapter: { address: new URL(adapter), authorization, allowPrivateAddress, ca } };
  }
  if (program === undefined) {
    if (scans.required === 'off') return undefined;
    throw new ConfigError(
      'scans.required is set and there is no scanner, so no image could be served: set scans.program or scans.adapter',
    );
  }
  const found = findScannerProgram(program, path);
  if (!found) {
    throw new ConfigError(
      isAbsolute(program)
        ? `scans.program: ${program} is not a program that this server may run: install it there`
        : `scans.program: ${program} is not on the PATH of this server: install it, or write its absolute path`,
    );
  }
  return {
    program: {
      ...found,
      database: scans.database ?? join(scanFolder({ data }), found.kind),
      updatesDatabase: scans.updateDatabase,
      ca,
      memoryBytes: scans.memory,
    },
  };
}

/** Returns the folder below the data directory for what scanners keep. */
export function scanFolder({ data }: Pick<Config, 'data'>): string {
  return join(resolve(data), 'scans');
}
