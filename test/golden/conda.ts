import { createHash } from 'node:crypto';
import { globSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { installPacked } from '../conda/installing/installed.ts';
import { makeTempDir } from '../world/temp-dir.ts';

/** Archives of packages, which never change, and the digests of what is installed from them. */
export const condaFolder = join(import.meta.dirname, 'conda');
export const digestsFile = join(condaFolder, 'digests.txt');

/** Installs each archive; returns a line for each with the SHA-256 of its tar entries. */
export async function installedDigests(): Promise<string> {
  await using directory = await makeTempDir('golden-conda');
  const lines = [];
  for (const path of globSync('*.{conda,tar.bz2}', { cwd: condaFolder }).toSorted()) {
    const fileName = basename(path);
    const [, name = '', version = '', build = ''] =
      /^(.+)-([^-]+)-([^-]+?)\.(?:conda|tar\.bz2)$/.exec(fileName) ?? [];
    const bytes = readFileSync(join(condaFolder, path));
    const packed = { fileName, subdir: 'noarch', bytes, record: { name, version, build } };
    const python = { minorVersion: '3.12', sitePackages: 'lib/python3.12/site-packages' };
    const { tar } = await installPacked(packed, directory, { python });
    lines.push(`${createHash('sha256').update(tar).digest('hex')}  ${fileName}\n`);
  }
  return lines.join('');
}
