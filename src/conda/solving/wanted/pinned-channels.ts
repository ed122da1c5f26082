import { Fault } from '../../../foundation/fault.ts';

/** Specifications as the solver reads them: it knows no channels in them. */
export interface PinnedSpecs {
  /** Match specifications without channels. */
  readonly specs: readonly string[];
  /** The channel, as written, that a package must come from, by the name of the package. */
  readonly channelOf: ReadonlyMap<string, string>;
}

const inFront = /^(?<channel>.+)::(?<spec>[^:]+)$/s;
// Outside brackets, `channel` is a part of the name of a package.
const inBrackets =
  /(?<=\[(?:[^\]]*[,\s])?)channel\s*=\s*(?<quote>['"]?)(?<channel>[^'",\]]+)\k<quote>\s*,?\s*/;

/** Separates a match specification from its channel, as {@link withoutChannels} does. */
export function splitChannel(written: string): {
  readonly spec: string;
  /** Undefined for a specification without a channel. */
  readonly channel: string | undefined;
} {
  const { channel, spec } = inFront.exec(written)?.groups ?? {};
  if (channel !== undefined && spec !== undefined) return { channel, spec };
  const inside = inBrackets.exec(written)?.groups?.channel;
  if (inside === undefined) return { channel: undefined, spec: written };
  const rest = written
    .replace(inBrackets, '')
    .replace(/,\s*\]$/, ']')
    .replace('[]', '');
  return { channel: inside.trim(), spec: rest };
}

/**
 * Separates match specifications from the channels in them: `bioconda::samtools`, `samtools[channel=bioconda]`. Throws a
 * `Fault` (400) for a package that is required from two channels. Source: conda, Package match specifications.
 */
export function withoutChannels(specs: readonly string[]): PinnedSpecs {
  const channelOf = new Map<string, string>();
  const plain = specs.map(written => {
    const { channel, spec } = splitChannel(written);
    if (channel === undefined) return written;
    const name = /^[^ =<>!~[]+/.exec(spec)?.[0].toLowerCase() ?? spec;
    const other = channelOf.get(name);
    if (other !== undefined && other !== channel) {
      throw new Fault(
        'bad-request',
        `The package ${name} is required from two channels, ${other} and ${channel}: choose one`,
        { phase: 'request' },
      );
    }
    channelOf.set(name, channel);
    return spec;
  });
  return { specs: plain, channelOf };
}
