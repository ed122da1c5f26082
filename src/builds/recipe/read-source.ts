import type { CondaSource, CondaWanted, RecipeSource } from './build-source.ts';
import { orderedChannels, readChannel } from './conda/conda-channel.ts';
import { readEntries, readEnvironmentFile } from './conda/conda-environment.ts';
import { readCondaOptions } from './conda/conda-options.ts';
import {
  isExplicitLock,
  isLockUrl,
  readExplicitLock,
  readLockUrl,
} from './conda/lock/conda-lock.ts';
import { isCondaLockYml, readCondaLockYml } from './conda/lock/conda-lock-yml.ts';
import type { SubmittedBuild, SubmittedPackages } from './submitted.ts';
import { base64Text } from './text/base64-text.ts';
import { refuse, shown } from './text/refuse.ts';

const spackRetired =
  "Spack is deprecated and cannot be built: list conda packages in 'packages', type CONDA, or write a Dockerfile in 'containerFile'";

/**
 * What a request wants built, decoded, checked and normalised.
 * Throws a `Fault` (400) that names the field and the remedy, also when there is nothing to build.
 * Source: specification, sections 2.1 and 2.3.
 *
 * @param subdirs the platforms that it is built for, as conda calls them
 */
export function readBuildSource(
  submitted: SubmittedBuild,
  subdirs: readonly string[] = ['linux-64'],
): RecipeSource {
  const { containerFile, condaFile, spackFile, packages } = submitted;
  const { spackOpts } = packages ?? {};
  if (spackFile !== undefined) refuse(`'spackFile': ${spackRetired}`);
  if (spackOpts !== undefined && spackOpts !== null)
    refuse(`'packages.spackOpts': ${spackRetired}`);
  if (packages !== undefined && (containerFile !== undefined || condaFile !== undefined)) {
    const other = containerFile === undefined ? 'condaFile' : 'containerFile';
    refuse(`'${other}' and 'packages' exclude each other: send one of them`);
  }
  if (containerFile !== undefined) {
    return {
      kind: 'containerFile',
      text: base64Text('containerFile', containerFile),
      ...(condaFile === undefined ? {} : { condaFile: base64Text('condaFile', condaFile) }),
    };
  }
  if (condaFile !== undefined) return readFile('condaFile', condaFile, [], {}, subdirs);
  if (packages !== undefined) return readPackages(packages, subdirs);
  refuse("There is nothing to build: send 'containerFile', 'packages' or 'condaFile'");
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
      "'packages' names no package: list them in 'packages.entries' or 'packages.environment'",
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
  const text = base64Text(field, base64);
  if (isCondaLockYml(text)) {
    return condaSource(readCondaLockYml(field, text, subdirs), channels, packages);
  }
  if (isExplicitLock(text)) return condaSource(readExplicitLock(field, text), channels, packages);
  const file = readEnvironmentFile(field, text);
  return condaSource(file.environment, [...file.channels, ...channels], packages);
}

function readList(
  field: string,
  entries: readonly string[],
  subdirs: readonly string[],
): CondaWanted {
  const whole = entries.join('\n');
  if (isCondaLockYml(whole)) return readCondaLockYml(field, whole, subdirs);
  if (isExplicitLock(whole)) return readExplicitLock(field, whole);
  const [first = '', ...others] = entries;
  if (others.length === 0 && isLockUrl(first)) return readLockUrl(`${field}[0]`, first);
  return readEntries(field, entries);
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
