import { Fault } from '../../../foundation/fault.ts';

/** Specifications as the solver reads them: it knows no channels in them. */
export interface PinnedSpecs {
  /** Match specifications without channels. */
  readonly specs: readonly string[];
  /** The channel, as written, that a package must come from, by the name of the package. */
  readonly channelOf: ReadonlyMap<string, string>;
}

const inFront = /^(?<channel>.+)::(?<spec>[^:]+)$/s;
const inBrackets = /\bchannel\s*=\s*(?<quote>['"]?)(?<channel>[^'",\]]+)\k<quote>\s*,?\s*/;

/**
 * Separates match specifications from the channels in them: `bioconda::samtools`, `samtools[channel=bioconda]`. Throws a
 * `Fault` (400) for a package that is required from two channels. Source: conda, Package match specifications.
 */
export function withoutChannels(specs: readonly string[]): PinnedSpecs {
  const channelOf = new Map<string, string>();
  const plain = specs.map(written => {
    const front = inFront.exec(written)?.groups;
    const bracket = front ? undefined : inBrackets.exec(written)?.groups;
    const channel = front?.channel ?? bracket?.channel?.trim();
    if (channel === undefined) return written;
    const spec = front?.spec ?? written.replace(inBrackets, '').replace('[]', '');
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
