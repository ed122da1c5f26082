import { parsePackage, pinnedVersion } from '../package-spec.ts';

// Packages whose version is a version of CUDA.
const versioned = new Set([
  'cuda',
  'cuda-runtime',
  'cuda-toolkit',
  'cuda-version',
  'cudatoolkit',
  'pytorch-cuda',
]);
const askedFor = /^(?:cuda|cuda-.+|cudatoolkit|cudnn|nccl|.+-cuda|.+-gpu)$/;

/** Newer than every CUDA: a package that needs one at least so new can be installed. */
export const anyCuda = '99';

/**
 * The version of CUDA to pretend when packages ask for it by name or build, since no builder has a GPU
 * and the solver takes it from the machine: the one that a package pins, else {@link anyCuda}. Undefined
 * when none asks for it.
 * Source: conda, Managing virtual packages (CONDA_OVERRIDE_CUDA).
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
