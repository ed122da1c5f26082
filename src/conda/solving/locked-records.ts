import type { CondaPackage } from '../conda-package.ts';
import type { VirtualPackage } from './conda-solver.ts';
import type { LockedRecord } from './solve-thread.ts';
import { solverSpec } from './solver-spec.ts';

const virtualRepo = 'virtual';

/** True for the name of a virtual package. Source: CEP 26, names of virtual packages begin with two underscores. */
export function isVirtual(name: string): boolean {
  return name.startsWith('__');
}

/** The solver takes no virtual packages: they are given as installed ones, and found again in its response. */
export function virtualRecord(it: VirtualPackage, subdir: string): LockedRecord {
  const { name, version, build = '0' } = it;
  const filename = `${name}-${version}-${build}.conda`;
  return {
    version,
    build,
    filename,
    subdir,
    url: `http://${virtualRepo}/${subdir}/${filename}`,
    packageName: name,
    buildNumber: 0n,
    depends: [],
    repoName: virtualRepo,
  };
}

export function lockedRecord(it: CondaPackage): LockedRecord {
  const { url, version, build, subdir, md5, sha256, size } = it;
  return {
    url,
    version,
    build,
    subdir,
    md5,
    sha256,
    depends: it.depends.map(solverSpec),
    packageName: it.name,
    buildNumber: BigInt(it.buildNumber),
    filename: it.fileName,
    repoName: url.slice(0, Math.max(0, url.lastIndexOf(`/${subdir}/`))),
    size: size === undefined ? undefined : BigInt(size),
  };
}

/** The solver may replace an installed package, unless it is also asked for. */
export function lockingSpec({ name, version, build }: CondaPackage): string {
  return `${name} ==${version} ${build}`;
}
