import { isLockText } from '../../../conda/locks/index.ts';
import type { RecipeRequest } from '../recipe-kind.ts';
import { type SubmittedPackages, spackRetired } from '../submitted.ts';
import { base64Text } from '../text/base64-text.ts';
import { refuse, shown } from '../text/refuse.ts';
import { orderedChannels, readChannel } from './conda-channel.ts';
import {
  isExportedList,
  readEntries,
  readEnvironmentFile,
  readExportedList,
} from './conda-environment.ts';
import { readCondaOptions } from './conda-options.ts';
import type { CondaSource, CondaWanted } from './conda-source.ts';
import { isLockUrl, readLockFile, readLockUrl } from './lock/conda-lock.ts';
import { separatePackages } from './package-spec.ts';
import { checkPlatforms, subdirOf } from './platform-fit.ts';

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
      ? "'packages.type' is missing: write CONDA"
      : `'packages.type': ${shown(type)} is not known: write CONDA`,
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

function condaSource(
  wanted: CondaWanted,
  channels: readonly string[],
  { condaOpts }: SubmittedPackages,
): CondaSource {
  return {
    kind: 'conda',
    wanted,
    channels: orderedChannels(channels),
    options: readCondaOptions('packages.condaOpts', condaOpts),
  };
}
