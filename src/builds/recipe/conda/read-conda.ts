import { isLockText } from '../../../conda/locks/index.ts';
import { formatReference, parseReference } from '../../../oci/naming.ts';
import type { ProjectParts } from '../../../pypi/locks/index.ts';
import { projectName } from '../../../pypi/requirements/index.ts';
import type { RecipeRequest } from '../recipe-kind.ts';
import { type SubmittedCondaOptions, type SubmittedPackages, spackRetired } from '../submitted.ts';
import { sortedOnce } from '../text/canonical-document.ts';
import { commandLine, imageName } from '../text/recipe-field.ts';
import { base64Text, oneLine, refuse, shown } from '../text/text-field.ts';
import {
  isExportedList,
  readEntries,
  readEnvironmentFile,
  readExportedList,
} from './conda-environment.ts';
import { isLockUrl, readLockFile, readLockUrl } from './conda-lock.ts';
import { checkPlatforms, subdirOf } from './conda-platform.ts';
import type { CondaOptions, CondaSource, CondaWanted } from './conda-source.ts';
import { orderedChannels, readChannel, readPackage, separatePackages } from './package-spec.ts';
import { pythonFileIn } from './python-inputs.ts';

/**
 * Reads the Conda packages of a request; undefined for a request without any. Throws a `Fault` (400). Source:
 * specification, sections 2.1 and 2.3.
 */
export function readConda({ submitted, platforms }: RecipeRequest): CondaSource | undefined {
  const { containerFile, condaFile, packages } = submitted;
  const subdirs = platforms.map(subdirOf);
  // With a Dockerfile, the Conda file is a file of its build context.
  if (containerFile !== undefined) return undefined;
  const source =
    condaFile !== undefined
      ? readFile('condaFile', condaFile, [], {}, subdirs)
      : packages && readPackages(packages, subdirs);
  if (source) checkPlatforms(source, platforms);
  if (source && packages && condaFile === undefined) requireProject(source, packages);
  return source;
}

function readPackages(packages: SubmittedPackages, subdirs: readonly string[]): CondaSource {
  const { type, environment, entries, channels = [] } = packages;
  checkType(type);
  if (environment !== undefined && entries !== undefined && entries.length > 0) {
    refuse("'packages.environment' and 'packages.entries' exclude each other: send one of the two");
  }
  const ordered = channels.map((channel, position) =>
    readChannel(`packages.channels[${position}]`, channel),
  );
  if (environment !== undefined) {
    return readFile('packages.environment', environment, ordered, packages, subdirs);
  }
  if (entries === undefined || entries.length === 0) {
    refuse(
      "'packages' does not name a package: list packages in 'packages.entries' or 'packages.environment'",
    );
  }
  return condaSource(readList('packages.entries', entries, subdirs), ordered, packages);
}

function checkType(type: string | undefined): void {
  if (type?.toUpperCase() === 'CONDA') return;
  if (type?.toUpperCase() === 'SPACK') refuse(`'packages.type': ${spackRetired}`);
  refuse(
    type === undefined || type === ''
      ? "'packages.type' is missing: write CONDA, or CRAN for R packages"
      : `'packages.type': ${shown(type)} is not known: write CONDA, or CRAN for R packages`,
  );
}

function readFile(
  field: string,
  base64: string,
  channels: readonly string[],
  packages: SubmittedPackages,
  subdirs: readonly string[],
): CondaSource {
  const text = base64Text(field, base64).replace(/^\ufeff/, '');
  if (isLockText(text)) return condaSource(readLockFile(field, text, subdirs), channels, packages);
  if (isExportedList(text)) {
    return condaSource(readExportedList(field, text), channels, packages);
  }
  const python = pythonFileIn(field, text, partsOf(packages));
  if (python) return condaSource(python, channels, packages);
  const file = readEnvironmentFile(field, text);
  return condaSource(file.environment, [...file.channels, ...channels], packages);
}

function readList(
  field: string,
  entries: readonly string[],
  subdirs: readonly string[],
): CondaWanted {
  const whole = entries.join('\n').replace(/^\ufeff/, '');
  if (isLockText(whole)) return readLockFile(field, whole, subdirs);
  const [first = '', ...others] = entries;
  if (others.length === 0 && isLockUrl(first)) return readLockUrl(`${field}[0]`, first);
  return readEntries(field, entries.flatMap(separatePackages));
}

/** Throws a `Fault` (400) for extras and groups of packages that have none. */
function requireProject({ wanted }: CondaSource, { pipOpts = {} }: SubmittedPackages): void {
  const isProject =
    wanted.form === 'environment' &&
    (wanted.pythonLock !== undefined || wanted.leftOut !== undefined);
  const { extras = [], groups = [] } = pipOpts;
  if (isProject || extras.length + groups.length === 0) return;
  refuse(
    "'packages.pipOpts' selects parts of a pyproject.toml, uv.lock, pylock.toml or poetry.lock: send the content of one in 'packages.environment', or leave it out",
  );
}

/** Returns the extras and groups of a request, each once. */
function partsOf({ pipOpts = {} }: SubmittedPackages): ProjectParts {
  const { extras = [], groups = [] } = pipOpts;
  const read = (member: string, names: readonly string[]) =>
    sortedOnce(
      names.map((one, at) => {
        const name = oneLine(`packages.pipOpts.${member}[${at}]`, one);
        if (/^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?$/.test(name))
          return projectName(name);
        return refuse(`'packages.pipOpts.${member}[${at}]': ${shown(name)} is not a name`);
      }),
    );
  return { extras: read('extras', extras), groups: read('groups', groups) };
}

function condaSource(
  wanted: CondaWanted,
  channels: readonly string[],
  { condaOpts, pixiOpts }: SubmittedPackages,
): CondaSource {
  return {
    kind: 'conda',
    wanted,
    channels: orderedChannels(channels),
    options:
      condaOpts === undefined && pixiOpts !== undefined
        ? readCondaOptions('packages.pixiOpts', pixiOpts)
        : readCondaOptions('packages.condaOpts', condaOpts),
  };
}

/** Defaults for a request without options. */
const defaultOptions = {
  mambaImage: 'mambaorg/micromamba:1.5.10-noble',
  baseImage: 'ubuntu:24.04',
  basePackages: 'conda-forge::procps-ng',
} as const;

/**
 * The full names of the images with the package manager that existing clients send without being asked to. Source:
 * reference service, defaults of its two templates.
 */
export const usualMambaImages: readonly string[] = [
  defaultOptions.mambaImage,
  'mambaorg/micromamba:2-amazon2023',
].map(name => formatReference(parseReference(name)));

/**
 * Reads the options of a conda build. Returns the full names of images. Splits `basePackages` at blanks; an empty text
 * means no packages. Throws a `Fault` that names the field. Source: specification 2.3; `baseImage` is not in it.
 */
function readCondaOptions(field: string, submitted: SubmittedCondaOptions = {}): CondaOptions {
  const { mambaImage, baseImage, basePackages, commands = [] } = submitted;
  return {
    mambaImage: imageName(`${field}.mambaImage`, mambaImage ?? defaultOptions.mambaImage),
    baseImage: imageName(`${field}.baseImage`, baseImage ?? defaultOptions.baseImage),
    basePackages: readBasePackages(
      `${field}.basePackages`,
      basePackages ?? defaultOptions.basePackages,
    ),
    commands: commands.map((command, position) =>
      commandLine(`${field}.commands[${position}]`, command),
    ),
  };
}

function readBasePackages(field: string, text: string): readonly string[] {
  return sortedOnce(
    text
      .split(/\s+/)
      .filter(word => word !== '')
      .map(word => readPackage(field, word)),
  );
}
