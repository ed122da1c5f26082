import { randomInt } from 'node:crypto';

/** Host name whose address in `/etc/hosts` of a step is the number of its build; contained/runc.sh reads it. */
export const buildHost = 'sluice-build';

/**
 * An extra host that tells the steps of one build from those of others: the address is a number, and nothing is there
 * (0.0.0.0/8, RFC 1122). BuildKit leaves the addresses of extra hosts out of its cache keys.
 */
export function numberedBuild(): Readonly<Record<string, string>> {
  const number = randomInt(2 ** 24);
  return { [buildHost]: `0.${number >> 16}.${(number >> 8) & 255}.${number & 255}` };
}
