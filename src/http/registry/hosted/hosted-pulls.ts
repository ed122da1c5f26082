import type { IncomingMessage } from 'node:http';
import { boundedCache } from '../../../foundation/bounded-cache.ts';
import { type Digest, isDigest } from '../../../oci/digest.ts';
import type { PullCounter } from '../../../pull/pull-counter.ts';
import { callerAddress } from '../../callers/client-address.ts';

/** A manifest request for a hosted image that was answered. */
export interface AnsweredManifest {
  readonly repository: string;
  /** A tag or a digest, as the client asked. */
  readonly reference: string;
  readonly digest: Digest;
}

/** A pull of a hosted image. The tag is undefined for a pull by digest. */
export interface HostedPull {
  readonly repository: string;
  readonly digest: Digest;
  readonly tag: string | undefined;
  /** True for a manifest that the client gets as part of a pull that is counted: the image of an index. */
  readonly isPart: boolean;
}

export interface HostedPullsDeps {
  readonly counter: PullCounter;
  readonly trustedProxies: number;
  readonly record: (pull: HostedPull) => void;
}

const windowMs = 30_000;
const mostLooks = 10_000;

/**
 * Returns a function that counts pulls, not requests: one client pulls a tag or a digest once within half a minute.
 * Clients that ask for a tag with HEAD and then get its digest pull the tag. A further manifest by digest, within half a
 * minute, is part of the same pull.
 */
export function countHostedPulls({ counter, trustedProxies, record }: HostedPullsDeps) {
  /** The tags that clients have looked at. */
  const looks = boundedCache<string, string>(mostLooks, { ttl: windowMs });
  return (req: IncomingMessage, { repository, reference, digest }: AnsweredManifest): void => {
    const client = callerAddress(req, trustedProxies);
    const look = `${client} ${repository}@${digest}`;
    if (req.method === 'HEAD') {
      if (!isDigest(reference)) looks.set(look, reference);
      return;
    }
    const tag = isDigest(reference) ? looks.get(look) : reference;
    const isPart = tag === undefined && counter.isRunning(client, repository);
    const pulled = `${repository} ${tag ?? digest}`;
    if (counter.isRunning(client, pulled)) return;
    counter.begin(client, pulled);
    counter.begin(client, repository);
    record({ repository, digest, tag, isPart });
  };
}

export type CountHostedPull = ReturnType<typeof countHostedPulls>;
