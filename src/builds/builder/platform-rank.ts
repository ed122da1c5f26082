// An emulated platform takes many times as long, and one that is missing fails at its first RUN.
const emulated = 1;
const missing = 100;

/**
 * How well a builder suits the platforms of a build, 0 best.
 *
 * @param offered those of the builder: its own first, then those it emulates
 */
export function platformRank(wanted: readonly string[], offered: readonly string[]): number {
  const [own = ''] = offered.map(machineOf);
  const all = new Set(offered.map(machineOf));
  return wanted
    .map(machineOf)
    .map(machine => (machine === own ? 0 : all.has(machine) ? emulated : missing))
    .reduce((sum: number, rank) => sum + rank, 0);
}

/** Without the variant: an amd64 machine lists several. */
function machineOf(platform: string): string {
  return platform.split('/').slice(0, 2).join('/');
}
