import { Fault } from '../../foundation/fault.ts';
import { formatPlatform, type Platform, parsePlatform } from '../../oci/naming.ts';
import { inField } from './field.ts';

/** Throws {@link Fault} (400) for several platforms. */
export function checkOnePlatform(platforms: readonly Platform[]): void {
  if (platforms.length === 1) return;
  throw new Fault(
    'bad-request',
    "'containerPlatform': a Singularity image is for one platform: make a request for each",
    { phase: 'request' },
  );
}

/**
 * Reads `linux/amd64,linux/arm64`. Returns each platform once, in the order of their names. Throws {@link Fault} (400).
 */
export function readPlatforms(text: string): Platform[] {
  const platforms = inField('containerPlatform', () =>
    text.split(',').map(part => parsePlatform(part.trim())),
  );
  const byName = new Map(platforms.map(platform => [formatPlatform(platform), platform]));
  return [...byName.keys()].sort().map(name => byName.get(name) as Platform);
}
