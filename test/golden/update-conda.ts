/**
 * Writes the digests of what is installed from the archives of packages: `npx node test/golden/update-conda.ts`. A changed
 * digest changes layers of all images: increase `layerVersion`. `--pack` packs the archives again: another version of
 * Node writes other bytes.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pythonShapes, shapes } from '../conda/installing/shapes.ts';
import { packPackage } from '../world/conda-package.ts';
import { condaFolder, digestsFile, installedDigests } from './conda.ts';

const maxBytes = 64 * 1024;

if (process.argv.includes('--pack')) {
  for (const it of [...shapes, ...pythonShapes({ name: 'python', version: '3.12.1' })]) {
    const small = it.files?.filter(({ content = '' }) => content.length < maxBytes) ?? [];
    const { fileName, bytes } = await packPackage({ ...it, files: small });
    writeFileSync(join(condaFolder, fileName), bytes);
  }
}
writeFileSync(digestsFile, await installedDigests());
