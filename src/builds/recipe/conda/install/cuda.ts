import { parsePackage, pinnedVersion } from '../package-spec.ts';

// Packages whose version is a CUDA version.
const versioned = new Set([
  'cuda',
  'cuda-runtime',
  'cuda-toolkit',
  'cuda-version',
  'cudatoolkit',
  'pytorch-cuda',
]);
const askedFor = /^(?:cuda|cuda-.+|cudatoolkit|cudnn|nccl|.+-cuda|.+-gpu)$/;

/** Newer than every CUDA release: packages with any minimum CUDA version can be installed. */
export const anyCuda = '99';

/**
 * Returns the CUDA version to simulate when packages require CUDA by name or build: no builder has a GPU, and the
 * solver reads the version from the machine. It is the version that a package pins, else {@link anyCuda}; undefined
 * when no package requires CUDA. Source: conda, Managing virtual packages (CONDA_OVERRIDE_CUDA).
 */
export function pretendedCuda(packages: readonly string[]): string | undefined {
  const specs = packages.map(parsePackage).filter(spec => spec !== undefined);
  const asking = specs.filter(
    ({ name, constraint }) => askedFor.test(name) || /cuda/i.test(constraint),
  );
  if (asking.length === 0) return undefined;
  const pinned = asking.filter(({ name }) => versioned.has(name)).map(pinnedVersion);
  const version = pinned.find(text => text !== undefined && /^\d+(?:\.\d+)*$/.test(text));
  return version?.split('.').slice(0, 2).join('.') ?? anyCuda;
}
