import { formatPlatform, namedArchitectures, type Platform } from '../../../oci/naming.ts';
import { refuse, shown } from '../text/text-field.ts';
import { type CondaSource, packageUrlsIn } from './conda-source.ts';
import { parsePackage, pinnedVersion } from './package-spec.ts';

const subdirs: Readonly<Record<string, string>> = Object.fromEntries(
  namedArchitectures.map(([name, { subdir }]) => [`linux/${name}`, subdir]),
);

/** Returns conda's name of a platform. */
export function subdirOf(platform: Platform): string {
  const name = formatPlatform(platform);
  return subdirs[name] ?? name;
}

/** Returns the architecture of one of conda's platforms, as BuildKit calls it. */
export function architectureOf(subdir: string): string {
  return namedArchitectures.find(([, names]) => names.subdir === subdir)?.[0] ?? subdir;
}

/**
 * Throws a `Fault` when the source names a package for a platform other than the target platform: it would be
 * installed, but would not run. The content of a lock file given by its address is unknown before the build.
 */
export function checkPlatforms(source: CondaSource, platforms: readonly Platform[]): void {
  const { wanted } = source;
  for (const platform of platforms.map(formatPlatform)) {
    const urls =
      wanted.form === 'locks'
        ? (wanted.platforms.find(({ subdir }) => subdir === subdirs[platform])?.urls ?? [])
        : packageUrlsIn(wanted);
    const stray = urls.find(url => {
      const subdir = /\/((?:linux|osx|win|emscripten|wasi)-[a-z0-9_]+)\/[^/]+$/.exec(url)?.[1];
      return subdir !== undefined && subdir !== subdirs[platform];
    });
    if (stray === undefined) continue;
    refuse(
      `The package ${shown(stray)} is not for ${platform}: ask for its platform alone with 'containerPlatform', or for packages by name`,
    );
  }
}

// Packages whose version is a CUDA version.
const cudaPackages = new Set([
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
  const pinned = asking.filter(({ name }) => cudaPackages.has(name)).map(pinnedVersion);
  const version = pinned.find(text => text !== undefined && /^\d+(?:\.\d+)*$/.test(text));
  return version?.split('.').slice(0, 2).join('.') ?? anyCuda;
}
