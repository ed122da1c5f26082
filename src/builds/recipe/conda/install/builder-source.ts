import type { BuilderChannels } from '../../../../conda/index.ts';
import { splitChannel } from '../../../../conda/locks/index.ts';
import type { BuilderIndexes } from '../../../../pypi/index.ts';
import { type PipLine, readPipLine } from '../../../../pypi/requirements/index.ts';
import { refuse, shown } from '../../text/text-field.ts';
import { type CondaSource, pipIn } from '../conda-source.ts';
import { isPackageUrl, parsePackage } from '../package-spec.ts';

/** What the package managers of a builder read of the configuration: the channels of Conda, and the indexes for pip. */
export interface BuilderReach extends BuilderChannels {
  /** Default: the public index. */
  readonly indexes?: BuilderIndexes | undefined;
}

/**
 * Returns a source as the package manager of a builder can read it: a channel that the configuration has at another
 * address has that address, without credentials.
 */
export function builderSource(source: CondaSource, channels: BuilderChannels): CondaSource {
  const { wanted, options } = source;
  const reached = (spec: string) => reachedSpec(spec, channels);
  return {
    ...source,
    channels: [...new Set(source.channels.flatMap(channels.reached))],
    wanted:
      wanted.form === 'environment'
        ? { ...wanted, packages: wanted.packages.map(reached) }
        : wanted,
    options: { ...options, basePackages: options.basePackages.map(reached) },
  };
}

function reachedSpec(written: string, channels: BuilderChannels): string {
  if (isPackageUrl(written)) return written;
  const { channel, spec } = splitChannel(written);
  if (channel === undefined) return written;
  const [reached, ...others] = channels.reached(channel);
  const isSame = reached === undefined || reached === channel || others.length > 0;
  return isSame ? written : `${reached}::${spec}`;
}

/**
 * Throws a `Fault` (400) for a channel or index that a builder would not read as the configuration has it: it gets no credentials.
 *
 * @param reasons what requires a builder; empty where a builder makes all images
 * @param pip lines for pip. Default: those of the source
 */
export function requireReachable(
  source: CondaSource,
  reasons: readonly string[],
  channels: BuilderReach | undefined,
  pip: readonly string[] = pipIn(source.wanted),
): void {
  if (channels?.indexes) requireOpenIndex(pip, reasons, channels.indexes);
  const specs = solvedSpecs(source);
  if (channels === undefined || specs.length === 0) return;
  const pinned = specs.flatMap(spec => {
    const { channel } = splitChannel(spec);
    return channel === undefined ? [] : [{ channel, name: `${shown(channel)} of ${shown(spec)}` }];
  });
  const listed = source.channels.map(channel => ({ channel, name: shown(channel) }));
  const remedy = remedyFor(reasons, 'the channel');
  const closed = [...listed, ...pinned].find(({ channel }) => channels.isClosed(channel));
  if (closed !== undefined) {
    refuse(
      `The channel ${closed.name} has credentials in the configuration, which a builder does not get, and ${remedy}`,
    );
  }
  const divided = pinned.find(({ channel }) => channels.reached(channel).length > 1);
  if (divided !== undefined) {
    refuse(
      `The channel ${divided.name} stands for several channels in the configuration, of which a builder reads one, and ${remedy}`,
    );
  }
}

/**
 * Throws a `Fault` (400) for packages of pip that a builder cannot fetch from where the configuration has them: at the public index
 * another package may have the same name.
 */
function requireOpenIndex(
  pip: readonly string[],
  reasons: readonly string[],
  indexes: BuilderIndexes,
): void {
  const isClosed = pip.map(readPipLine).some(line => indexes.isClosed(addressIn(line)));
  if (!isClosed) return;
  refuse(
    `The index of Python packages has credentials in the configuration, which a builder does not get, and ${remedyFor(reasons, "the 'pip' packages")}`,
  );
}

/** Returns the address that a line names; undefined for one that is looked up. */
function addressIn(line: PipLine): string | undefined {
  if (line.kind === 'wheel' || line.kind === 'address') return line.wheel.url;
  return line.kind === 'source' ? line.project.source.url : undefined;
}

function remedyFor(reasons: readonly string[], what: string): string {
  return reasons.length === 0
    ? "a builder makes all images of Conda packages on this server: leave it out, or ask the operator for 'builds.conda: auto'"
    : `a builder is required for ${new Intl.ListFormat('en').format(reasons)}: leave out ${what}, or what requires a builder`;
}

/**
 * Returns the match specifications that the package manager solves with the channels of a source; empty where it installs
 * given packages only, and so reads no channel.
 */
function solvedSpecs({ wanted, options: { basePackages } }: CondaSource): readonly string[] {
  switch (wanted.form) {
    case 'environment': {
      const specs = [...wanted.packages, ...basePackages].filter(spec => !isPackageUrl(spec));
      return wanted.pip.length > 0 ? [...specs, 'pip'] : specs;
    }
    case 'lock':
      return missingIn(wanted.urls, [...basePackages, ...pipFor(wanted)]);
    case 'locks':
      return [
        ...new Set(
          wanted.platforms.flatMap(lock =>
            missingIn(lock.urls, [...basePackages, ...pipFor(lock)]),
          ),
        ),
      ];
    case 'lockUrl':
      return basePackages;
  }
}

/** Returns pip itself where it has packages to install. */
function pipFor({ pip }: { readonly pip: readonly string[] }): readonly string[] {
  return pip.length > 0 ? ['pip'] : [];
}

/** Returns the base packages that a lock file does not list. */
export function missingIn(
  urls: readonly string[],
  basePackages: readonly string[],
): readonly string[] {
  return basePackages.filter(spec => {
    const name = parsePackage(spec)?.name;
    return name === undefined || !urls.some(url => packageOf(url) === name.toLowerCase());
  });
}

/** Returns the name in the URL of a package: `<name>-<version>-<build>.conda`. */
function packageOf(url: string): string {
  const file = url.replace(/[?#].*$/s, '').replace(/^.*\//s, '');
  return file.split('-').slice(0, -2).join('-').toLowerCase();
}
