import { randomInt } from 'node:crypto';

/** Host name that carries the build number: its address in the `/etc/hosts` of a step. contained/runc.sh reads it. */
export const buildHost = 'sluice-build';

/**
 * Returns an extra host that distinguishes the steps of one build from those of others. The address is the number of
 * the build; no machine has it (0.0.0.0/8, RFC 1122). BuildKit leaves the addresses of extra hosts out of its cache
 * keys.
 */
export function numberedBuild(): Readonly<Record<string, string>> {
  const number = randomInt(2 ** 24);
  return { [buildHost]: `0.${number >> 16}.${(number >> 8) & 255}.${number & 255}` };
}

/**
 * Returns an extra host that only the steps of this domain have. Its name is part of BuildKit's cache keys: a step cannot
 * get the result of a step of another domain, on any builder and from any cache. The files of an image do not have it.
 *
 * @param label the label of the domain from `LabelOf`
 */
export function domainHosts(label: string): Readonly<Record<string, string>> {
  return { [`sluice-${label}`]: '0.0.0.0' };
}
