import type { BuilderIndexes } from '../../../../pypi/index.ts';
import type { BuildkitRecipe } from '../../recipe-kind.ts';
import { sortedOnce } from '../../text/canonical-document.ts';
import { anyCuda, architectureOf, pretendedCuda } from '../conda-platform.ts';
import type {
  CondaEnvironment,
  CondaLock,
  CondaLocks,
  CondaLockUrl,
  CondaSource,
} from '../conda-source.ts';
import { isPackageUrl, parsePackage } from '../package-spec.ts';
import { missingIn } from './builder-source.ts';

/**
 * Increases whenever the recipe of a source changes its result. It is part of the build key, so that images of an older
 * recipe are not used for the new one.
 */
export const condaRecipeVersion = '1';

/** Path of the lock file in the lock stage. */
const lockPath = 'conda.lock';

const lockStage = 'lock';
const buildFolder = '/sluice';
const installCommand = 'micromamba install --yes --name base';
const solveCommand = `/bin/sh ${buildFolder}/solve.sh`;
const pythonPath = '/opt/conda/bin/python';

/** The part of a recipe that installs packages: lines of the Dockerfile, and the files that they copy. */
interface Installation {
  readonly lines: readonly string[];
  readonly files: ReadonlyMap<string, string>;
}

/**
 * Returns the recipe of a conda source, in three stages. `build` makes the environment. `lock` contains only its lock
 * file. `final` is the base image with the environment at its original path. The package manager stays in the first
 * stage.
 *
 * @param indexes where pip finds packages; undefined for the public index
 * @param found all packages of the source, where they are known: they are installed and not solved
 */
export function condaRecipe(
  { wanted, channels, options }: CondaSource,
  indexes?: BuilderIndexes,
  found?: CondaLock | CondaLocks,
): BuildkitRecipe {
  const { lines, files } = found
    ? installationOf(found, channels, [])
    : installationOf(wanted, channels, options.basePackages);
  const variables = wanted.form === 'environment' ? wanted.variables : [];
  const dockerfile = [
    `# Made by Sluice, recipe conda-${condaRecipeVersion}`,
    `FROM ${options.mambaImage} AS build`,
    'SHELL ["/bin/sh", "-ec"]',
    'USER 0',
    'ENV MAMBA_ROOT_PREFIX=/opt/conda',
    // With this variable, Python's byte code does not depend on the time of compilation.
    'ARG SOURCE_DATE_EPOCH',
    ...(indexes ? indexForPip(indexes) : []),
    ...lines,
    'RUN micromamba clean --all --yes',
    '',
    `FROM scratch AS ${lockStage}`,
    `COPY --from=build ${buildFolder}/out/ /`,
    '',
    `FROM ${options.baseImage} AS final`,
    'COPY --from=build /opt/conda /opt/conda',
    ...variables.map(variable => `ENV ${envOf(variable)}`),
    'ENV CONDA_PREFIX=/opt/conda PATH=/opt/conda/bin:$PATH',
    ...options.commands,
    '',
  ].join('\n');
  return { maker: 'buildkit', dockerfile, files, lockStage };
}

/** Returns the index for pip: never the public one where the configuration has another, and none where that is closed to a builder. */
function indexForPip(indexes: BuilderIndexes): readonly string[] {
  if (indexes.isClosed()) return ['ENV PIP_NO_INDEX=1'];
  return indexes.url === undefined ? [] : [`ENV ${envOf(`PIP_INDEX_URL=${indexes.url}`)}`];
}

function envOf(variable: string): string {
  const equals = variable.indexOf('=') + 1;
  return variable.slice(0, equals) + quoteEnv(variable.slice(equals));
}

function installationOf(
  wanted: CondaSource['wanted'],
  channels: readonly string[],
  basePackages: readonly string[],
): Installation {
  switch (wanted.form) {
    case 'environment':
      return installEnvironment(wanted, channels, basePackages);
    case 'lock':
      return installLock(wanted, channels, basePackages);
    case 'locks':
      return installLocks(wanted, channels, basePackages);
    case 'lockUrl':
      return installLockUrl(wanted, channels, basePackages);
  }
}

/**
 * Solves all packages together. URLs of packages bypass the solver, as in conda. They are installed last: packages for
 * any platform are installed into the Python that exists by then.
 */
function installEnvironment(
  { packages, pip }: CondaEnvironment,
  channels: readonly string[],
  basePackages: readonly string[],
): Installation {
  const everything = sortedOnce([...packages, ...basePackages]);
  const specs = everything.filter(spec => !isPackageUrl(spec));
  const urls = everything.filter(isPackageUrl);
  const files = new Map<string, string>();
  const cuda = pretendedCuda(specs);
  const isSolved = specs.length > 0 || pip.length > 0;
  if (isSolved) files.set('conda.yml', condaYaml(channels, specs, pip));
  if (isSolved && cuda === undefined) files.set('solve.sh', solveScript);
  if (urls.length > 0) files.set('packages.lock', lockText(urls, []));
  if (pip.length > 0) files.set('pip-lock.py', pipLock);
  const lines = [
    copyOf(files),
    ...(files.has('solve.sh') ? [`RUN ${solveCommand} --file ${buildFolder}/conda.yml`] : []),
    ...(cuda === undefined
      ? []
      : [`RUN CONDA_OVERRIDE_CUDA=${cuda} ${installCommand} --file ${buildFolder}/conda.yml`]),
    ...(urls.length > 0 ? [`RUN ${installCommand} --file ${buildFolder}/packages.lock`] : []),
    exportLock(pip.length > 0 ? [listPip] : []),
  ];
  return { lines, files };
}

function installLock(
  { urls, pip }: CondaLock,
  channels: readonly string[],
  basePackages: readonly string[],
): Installation {
  const missing = missingIn(urls, basePackages);
  const hasPip = pip.length > 0;
  const files = new Map([['conda.lock', lockText(urls, pip)], ...solverFor(missing, hasPip)]);
  const lines = [
    copyOf(files),
    ...installLocked(hasPip, channels),
    ...addBase(missing, channels),
    exportLock(hasPip ? [keepPip] : []),
  ];
  return { lines, files };
}

/** Each platform has its own lock file: the builder copies the one of the platform that it builds for. */
function installLocks(
  { platforms }: CondaLocks,
  channels: readonly string[],
  basePackages: readonly string[],
): Installation {
  const missing = basePackages.filter(spec =>
    platforms.some(({ urls }) => missingIn(urls, [spec]).length > 0),
  );
  const hasPip = platforms.some(({ pip }) => pip.length > 0);
  const solver = solverFor(missing, hasPip);
  const locks = platforms.map(
    ({ subdir, urls, pip }) =>
      [`conda-${architectureOf(subdir)}.lock`, lockText(urls, pip)] as const,
  );
  const lines = [
    'ARG TARGETARCH',
    `COPY conda-\${TARGETARCH}.lock ${buildFolder}/conda.lock`,
    ...(solver.size > 0 ? [copyOf(solver)] : []),
    ...installLocked(hasPip, channels),
    ...addBase(missing, channels),
    exportLock(hasPip ? [keepPip] : []),
  ];
  return { lines, files: new Map([...locks, ...solver]) };
}

/** Installs from a lock file that the builder fetches: its pip lines are not known in advance. */
function installLockUrl(
  { url }: CondaLockUrl,
  channels: readonly string[],
  basePackages: readonly string[],
): Installation {
  // The package manager recognises a conda-lock file by the end of its name, and runs pip for it.
  if (/-lock\.ya?ml$/.test(url.replace(/[?#].*$/s, ''))) {
    const files = new Map([['pip-lock.py', pipLock], ...solverFor(basePackages, false)]);
    const lines = [
      `ADD ${url} ${buildFolder}/conda-lock.yml`,
      copyOf(files),
      `RUN ${installCommand} --file ${buildFolder}/conda-lock.yml`,
      ...addBase(basePackages, channels),
      exportLock([`if [ -x ${pythonPath} ]; then ${listPip}; fi`]),
    ];
    return { lines, files };
  }
  const solver = solverFor(basePackages, true);
  const lines = [
    `ADD ${url} ${buildFolder}/conda.lock`,
    copyOf(solver),
    ...installLocked(true, channels),
    ...addBase(basePackages, channels),
    exportLock([keepPip]),
  ];
  return { lines, files: solver };
}

function copyOf(files: ReadonlyMap<string, string>): string {
  return `COPY ${[...files.keys()].join(' ')} ${buildFolder}/`;
}

/** A lock file need not have pip itself, which its packages of pip require. */
function installLocked(hasPip: boolean, channels: readonly string[]): readonly string[] {
  const lines = [`RUN ${installCommand} --file ${buildFolder}/conda.lock`];
  if (!hasPip) return lines;
  return [
    ...lines,
    `RUN sed -n 's/^# pip //p' ${buildFolder}/conda.lock > ${buildFolder}/pip.txt; \\`,
    `    if [ -s ${buildFolder}/pip.txt ]; then \\`,
    `      ${pythonPath} -m pip --version > /dev/null 2>&1 || ${addCommand(['pip'], channels)}; \\`,
    `      ${pythonPath} -m pip install --no-deps --no-input --requirement ${buildFolder}/pip.txt; fi`,
  ];
}

/** Returns the files that {@link installLocked} and {@link addBase} require. */
function solverFor(basePackages: readonly string[], hasPip: boolean): ReadonlyMap<string, string> {
  return new Map(basePackages.length > 0 || hasPip ? [['solve.sh', solveScript]] : []);
}

function addBase(basePackages: readonly string[], channels: readonly string[]): readonly string[] {
  return basePackages.length === 0 ? [] : [`RUN ${addCommand(basePackages, channels)}`];
}

function addCommand(specs: readonly string[], channels: readonly string[]): string {
  const from = channels.map(channel => `--channel ${quoteShell(channel)}`).join(' ');
  return `${solveCommand} --freeze-installed ${from} ${specs.map(quoteShell).join(' ')}`;
}

const listPip = `${pythonPath} ${buildFolder}/pip-lock.py || echo '# what pip installed could not be listed'`;
const keepPip = `sed -n '/^# pip /p' ${buildFolder}/conda.lock`;

function exportLock(more: readonly string[]): string {
  const commands = ['micromamba env export --name base --explicit', ...more];
  return `RUN mkdir ${buildFolder}/out; { ${commands.join('; ')}; } > ${buildFolder}/out/${lockPath}`;
}

function lockText(urls: readonly string[], pip: readonly string[]): string {
  // The package manager takes other digests for an MD5.
  const lines = urls.map(url => url.replace(/#([0-9a-f]{64})$/, '#sha256:$1'));
  return ['@EXPLICIT', ...lines, ...pip.map(line => `# pip ${line}`), ''].join('\n');
}

/**
 * A shell script that runs the package manager with its arguments. A package may require CUDA without showing it in its
 * name, or may already be installed. Only when the solver fails for lack of CUDA does the script set a version and try
 * again. The log of any other failure ends with the reason, and its exit code is kept.
 */
const solveScript = `install() {
  micromamba install --yes --name base "$@"
}

status=0
install "$@" || status=$?
if [ "$status" = 0 ]; then exit; fi
install "$@" --dry-run 2>&1 | grep -q __cuda || exit "$status"
echo 'A package needs CUDA: trying again with CONDA_OVERRIDE_CUDA=${anyCuda}'
export CONDA_OVERRIDE_CUDA=${anyCuda}
install "$@"
`;

/**
 * Returns an environment file for the package manager. Every text is in double quotes, so that it is not read as a
 * number, a date or another YAML value. `pip` is among the packages when pip has packages to install.
 */
export function condaYaml(
  channels: readonly string[],
  packages: readonly string[],
  pip: readonly string[],
): string {
  const hasPip = packages.some(spec => parsePackage(spec)?.name === 'pip');
  const dependencies = pip.length > 0 && !hasPip ? [...packages, 'pip'] : packages;
  return [
    'channels:',
    ...channels.map(channel => `  - ${JSON.stringify(channel)}`),
    'dependencies:',
    ...dependencies.map(spec => `  - ${JSON.stringify(spec)}`),
    ...(pip.length > 0 ? ['  - pip:'] : []),
    ...pip.map(line => `      - ${JSON.stringify(line)}`),
    '',
  ].join('\n');
}

/**
 * A Python program that prints the packages that pip installed, as sorted `# pip <requirement>` lines. It omits
 * packages that conda installed: the explicit list already contains them. Source: PyPA, Recording installed projects
 * (INSTALLER) and Direct URL Data Structure.
 */
export const pipLock = `import json
from importlib.metadata import distributions


def requirement(found):
    name = found.metadata["Name"]
    origin = json.loads(found.read_text("direct_url.json") or "{}")
    url = origin.get("url", "")
    if "subdirectory" in origin:
        url += "#subdirectory=" + origin["subdirectory"]
    if "vcs_info" in origin:
        vcs = origin["vcs_info"]
        address, hash, fragment = url.partition("#")
        return f"{name} @ {vcs['vcs']}+{address}@{vcs['commit_id']}{hash}{fragment}"
    if "archive_info" in origin and not url.startswith("file:"):
        return f"{name} @ {url}"
    return f"{name}=={found.version}"


def installer(found):
    return (found.read_text("INSTALLER") or "").strip()


for line in sorted({requirement(found) for found in distributions() if installer(found) == "pip"}):
    print("# pip", line)
`;

/** Returns any text as one word of a POSIX shell. Source: POSIX.1-2017, Shell 2.2.2. */
export function quoteShell(text: string): string {
  if (/^[A-Za-z0-9_@%+=:,./-]+$/.test(text)) return text;
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** Returns the text as a value of ENV in a Dockerfile, safe from substitution. */
export function quoteEnv(text: string): string {
  if (/^[A-Za-z0-9_@%+=:,./-]+$/.test(text)) return text;
  return `"${text.replace(/["\\$]/g, '\\$&')}"`;
}
