import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, sep } from 'node:path';

// The exports of test/world/tools.ts, and the name under which scripts/tools.ts installs each.
const toolOf: Readonly<Record<string, readonly string[]>> = {
  requireCommand: ['host'],
  requireTools: ['host', 'bookworm', 'trixie', 'forky'],
  rootDirectory: ['bookworm', 'trixie', 'forky'],
  requireBusybox: ['busybox'],
  requireApptainer: ['apptainer'],
  requireConda: ['conda'],
  requireCondaReaders: ['conda-readers'],
  buildkitDirectory: ['buildkit'],
  requireNode: ['node'],
  requireObjectStore: ['object-store'],
  requireGrype: ['grype'],
  requireHelm: ['helm'],
  requireUv: ['uv'],
  requireWheels: ['wheels'],
  requireR: ['r'],
  requireChecker: ['checker'],
  requireEstargz: ['estargz'],
  requireTrivy: ['trivy'],
  requireTrivyDatabase: ['trivy-database'],
  requireCluster: ['cluster'],
  requireTraefik: ['traefik'],
  requireMetricsServer: ['metrics-server'],
};

const imports = /(?:^|\n)(?:import|export)\s(?!type\s)([^;'"]*?)from\s+'(\.[^']+)'/g;

/**
 * Returns the names of the tools that test files require. They follow from the imports of test/world/tools.ts, in these
 * files and in the helpers that they import.
 */
export function neededTools(files: readonly string[]): string[] {
  const needed = new Set<string>();
  const seen = new Set<string>();
  const visit = (file: string): void => {
    if (seen.has(file)) return;
    seen.add(file);
    for (const [, names = '', specifier = ''] of readFileSync(file, 'utf8').matchAll(imports)) {
      const target = join(dirname(file), specifier);
      if (target.endsWith(join('test', 'world', 'tools.ts'))) {
        for (const [name] of names.matchAll(/\w+/g)) {
          for (const tool of toolOf[name] ?? []) needed.add(tool);
        }
      } else if (target.split(sep).includes('test') && existsSync(target)) {
        // A program that a test writes into a file also has imports, of files that do not exist yet.
        visit(target);
      }
    }
  };
  for (const file of files) visit(file);
  return [...needed].sort();
}
