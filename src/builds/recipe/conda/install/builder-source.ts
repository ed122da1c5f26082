import type { BuilderChannels } from '../../../../conda/index.ts';
import { splitChannel } from '../../../../conda/locks/index.ts';
import { refuse, shown } from '../../text/text-field.ts';
import type { CondaSource } from '../conda-source.ts';
import { isPackageUrl, parsePackage } from '../package-spec.ts';

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
 * Throws a `Fault` (400) for a channel that a builder would not read as the configuration has it: it gets no credentials.
 *
 * @param reasons what requires a builder; empty where a builder makes all images
 */
export function requireReachable(
  source: CondaSource,
  reasons: readonly string[],
  channels: BuilderChannels | undefined,
): void {
  const specs = solvedSpecs(source);
  if (channels === undefined || specs.length === 0) return;
  const pinned = specs.flatMap(spec => {
    const { channel } = splitChannel(spec);
    return channel === undefined ? [] : [{ channel, name: `${shown(channel)} of ${shown(spec)}` }];
  });
  const listed = source.channels.map(channel => ({ channel, name: shown(channel) }));
  const remedy =
    reasons.length === 0
      ? "a builder makes all images of Conda packages on this server: leave it out, or ask the operator for 'builds.conda: auto'"
      : `a builder is required for ${new Intl.ListFormat('en').format(reasons)}: leave out the channel, or what requires a builder`;
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
      return missingIn(wanted.urls, basePackages);
    case 'locks':
      return basePackages.filter(spec =>
        wanted.platforms.some(({ urls }) => missingIn(urls, [spec]).length > 0),
      );
    case 'lockUrl':
      return basePackages;
  }
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
