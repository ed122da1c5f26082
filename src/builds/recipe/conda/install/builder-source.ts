import type { BuilderChannels } from '../../../../conda/index.ts';
import { splitChannel } from '../../../../conda/locks/index.ts';
import { refuse, shown } from '../../text/refuse.ts';
import type { CondaSource } from '../conda-source.ts';
import { isPackageUrl } from '../package-spec.ts';
import { solvedSpecs } from './solved-specs.ts';

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
