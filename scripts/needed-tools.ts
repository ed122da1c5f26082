import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, sep } from 'node:path';

// What test/world/tools.ts hands out, and the name under which scripts/tools.ts installs it.
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
};

const imports = /(?:^|\n)(?:import|export)\s(?!type\s)([^;'"]*?)from\s+'(\.[^']+)'/g;

/**
 * Returns the names of the tools that test files need: they follow from what the files, and the helpers that they
 * import, import from test/world/tools.ts.
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
        // A program that a test writes into a file has imports too, of files that are not there yet.
        visit(target);
      }
    }
  };
  for (const file of files) visit(file);
  return [...needed].sort();
}
