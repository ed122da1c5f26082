import { createHash } from 'node:crypto';
import { mkdir, writeFile } from 'node:fs/promises';
import type { CondaPackage } from '../../../src/conda/conda-package.ts';
import {
  type InstallOptions,
  installPackage,
} from '../../../src/conda/installing/install-package.ts';
import type {
  InstalledPackage,
  InstallPlace,
} from '../../../src/conda/installing/installed-package.ts';
import type { PackedPackage } from '../../world/conda-package.ts';
import type { TempDir } from '../../world/temp-dir.ts';

/** An installed package, and its tar entries. */
export interface Installation extends InstalledPackage {
  readonly tar: Buffer;
  /** Paths of files and links. */
  readonly paths: readonly string[];
}

export type InstallExtras = Partial<InstallPlace> &
  Partial<Pick<InstallOptions, 'limits' | 'signal'>> & { readonly package?: Partial<CondaPackage> };

/** Installs a packed package into `/opt/conda` of nowhere. */
export async function installPacked(
  { fileName, subdir, bytes, record }: PackedPackage,
  directory: TempDir,
  { limits, signal = new AbortController().signal, package: change, ...place }: InstallExtras = {},
): Promise<Installation> {
  const sha256 = createHash('sha256').update(bytes).digest('hex');
  const path = directory.join(sha256, fileName);
  await mkdir(directory.join(sha256), { recursive: true });
  await writeFile(path, bytes);
  const { name, version, build } = record as Pick<CondaPackage, 'name' | 'version' | 'build'>;
  const url = `https://conda.example.org/channel/${subdir}/${fileName}`;
  const it = { name, version, build, buildNumber: 0, subdir, fileName, url, sha256, depends: [] };
  const parts: Buffer[] = [];
  const paths: string[] = [];
  const onPath = (one: string) => void paths.push(one);
  const sink = { write: (part: Uint8Array) => void parts.push(Buffer.from(part)) };
  const installed = await installPackage(
    path,
    { ...it, ...change },
    { prefix: '/opt/conda', ...place },
    sink,
    { signal, scratch: directory.path, onPath, ...(limits ? { limits } : {}) },
  );
  return { ...installed, paths, tar: Buffer.concat(parts) };
}
