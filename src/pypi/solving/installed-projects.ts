import type { CondaPackage } from '../../conda/index.ts';
import { projectVersion } from '../project-version.ts';
import { projectName } from '../wheel-file.ts';

/** Projects whose package of Conda has another name. Source: metadata of the packages of conda-forge. */
const otherNames: Readonly<Record<string, readonly string[]>> = {
  'brotli-python': ['brotli'],
  'cython-blis': ['blis'],
  'dask-core': ['dask'],
  'matplotlib-base': ['matplotlib'],
  'msgpack-python': ['msgpack'],
  'nbconvert-core': ['nbconvert'],
  opencv: ['opencv-python', 'opencv-python-headless'],
  'py-opencv': ['opencv-python', 'opencv-python-headless'],
  'py-xgboost': ['xgboost'],
  'py-xgboost-cpu': ['xgboost'],
  'py-xgboost-gpu': ['xgboost'],
  'pyarrow-core': ['pyarrow'],
  pyqt: ['pyqt5'],
  pytables: ['tables'],
  'python-annoy': ['annoy'],
  'python-build': ['build'],
  'python-duckdb': ['duckdb'],
  'python-fastjsonschema': ['fastjsonschema'],
  'python-flatbuffers': ['flatbuffers'],
  'python-graphviz': ['graphviz'],
  'python-igraph': ['igraph'],
  'python-kaleido': ['kaleido'],
  'python-lmdb': ['lmdb'],
  'python-tzdata': ['tzdata'],
  'python-xxhash': ['xxhash'],
  pytorch: ['torch'],
  'pytorch-cpu': ['torch'],
  'pytorch-gpu': ['torch'],
  'ray-core': ['ray'],
  'ray-default': ['ray'],
  'seaborn-base': ['seaborn'],
  'sentencepiece-python': ['sentencepiece'],
  'snakemake-minimal': ['snakemake'],
  'tensorflow-base': ['tensorflow'],
  'tensorflow-cpu': ['tensorflow'],
  'tensorflow-gpu': ['tensorflow'],
  'uvicorn-standard': ['uvicorn'],
  'vtk-base': ['vtk'],
};

/**
 * Returns the version of each Python project that Conda installs, by its name as indexes compare it. The record of a package does
 * not say which projects it has: a package that requires Python has the one of its own name, except for some known ones.
 */
export function installedProjects(packages: readonly CondaPackage[]): ReadonlyMap<string, string> {
  return new Map(
    packages.flatMap(one =>
      projectsOf(one).map(project => [project, one.version.replace(/^v/, '')] as const),
    ),
  );
}

/** Returns the package of Conda that installs each Python project. */
export function packagesOfProjects(
  packages: readonly CondaPackage[],
): ReadonlyMap<string, CondaPackage> {
  return new Map(packages.flatMap(one => projectsOf(one).map(project => [project, one] as const)));
}

function projectsOf({ name, version, depends, record }: CondaPackage): readonly string[] {
  const isPython =
    record?.noarch === 'python' || depends.some(spec => /^(?:python|python_abi)(?: |$)/.test(spec));
  const isListed = Object.hasOwn(otherNames, name);
  if ((!isPython && !isListed) || name === 'python_abi') return [];
  if (projectVersion(version) === undefined) return [];
  return (isListed ? (otherNames[name] ?? []) : [name]).map(projectName);
}
