import { readFileSync, statSync } from 'node:fs';
import { glob } from 'node:fs/promises';
import type { CondaPackage } from '../test/world/conda-package.ts';

const packageCount = 100;
const totalBytes = 500e6;
const largestFile = 40e6;

/**
 * Returns 100 packages with 500 MB of programs, libraries and texts of this machine, with the long tail of sizes of a
 * channel.
 */
export async function packagesOfThisMachine(): Promise<CondaPackage[]> {
  const files = glob(['/usr/lib/**', '/usr/share/**'], { withFileTypes: false });
  const weights = Array.from({ length: packageCount }, (_, at) => 1 / (at + 2));
  const sum = weights.reduce((total, weight) => total + weight, 0);
  const packages: CondaPackage[] = [];
  let own: { name: string; content: Buffer }[] = [];
  let bytes = 0;
  for await (const path of files) {
    const stat = statSync(path, { throwIfNoEntry: false });
    if (!stat?.isFile() || stat.size === 0 || stat.size > largestFile) continue;
    own.push({ name: `lib/p${packages.length}${path}`, content: readFileSync(path) });
    bytes += stat.size;
    if (bytes < (totalBytes * (weights[packages.length] ?? 0)) / sum) continue;
    packages.push({ name: `package-${packages.length}`, version: '1.0', files: own });
    own = [];
    bytes = 0;
    if (packages.length === packageCount) break;
  }
  return packages;
}
