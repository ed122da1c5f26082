import { namedArchitectures } from '../../oci/naming.ts';
import type { VirtualPackage } from './conda-solver.ts';

/** The system of an image, as far as packages depend on it. */
export interface ImageSystem {
  /** `linux-64` or `linux-aarch64`. */
  readonly subdir: string;
  /** Version of the GNU C library. */
  readonly glibc: string;
  /** Version of CUDA to simulate; undefined for none. */
  readonly cuda?: string | undefined;
}

// Some packages require a minimum kernel. A container has the kernel of its host, which is not known: any that is still
// maintained is newer.
const kernel = '5.4';

/** Returns the virtual packages of a system. Source: CEP 30, conda, Managing virtual packages. */
export function virtualPackages({ subdir, glibc, cuda }: ImageSystem): readonly VirtualPackage[] {
  const architecture = namedArchitectures.find(([, names]) => names.subdir === subdir)?.[1].uname;
  return [
    { name: '__unix', version: '0' },
    { name: '__linux', version: kernel },
    { name: '__glibc', version: glibc },
    ...(architecture === undefined
      ? []
      : [{ name: '__archspec', version: '1', build: architecture }]),
    ...(cuda === undefined ? [] : [{ name: '__cuda', version: cuda }]),
  ];
}
