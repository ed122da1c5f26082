// A build on an emulated platform takes many times as long. On a missing platform it fails at its first RUN.
const emulated = 1;
const missing = 100;

/**
 * Returns how well a builder suits the platforms of a build; 0 is best.
 *
 * @param offered platforms of the builder: native ones first, then emulated ones
 */
export function platformRank(wanted: readonly string[], offered: readonly string[]): number {
  const [own = ''] = offered.map(machineOf);
  const all = new Set(offered.map(machineOf));
  return wanted
    .map(machineOf)
    .map(machine => (machine === own ? 0 : all.has(machine) ? emulated : missing))
    .reduce((sum: number, rank) => sum + rank, 0);
}

/** Drops the variant: an amd64 machine lists several. */
function machineOf(platform: string): string {
  return platform.split('/').slice(0, 2).join('/');
}
