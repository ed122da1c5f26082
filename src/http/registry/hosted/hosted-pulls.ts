import { boundedCache } from '../../../foundation/bounded-cache.ts';
import { type Digest, isDigest } from '../../../oci/digest.ts';
import type { PullCounter } from '../../../pull/index.ts';

/** A manifest request for a hosted image that was answered. */
export interface SentManifest {
  /** Address of the client. */
  readonly client: string;
  /** True for HEAD: the client has looked at the manifest only. */
  readonly isHead: boolean;
  readonly repository: string;
  /** A tag or a digest, as the client asked. */
  readonly reference: string;
  readonly digest: Digest;
}

/** A pull of a hosted image. The tag is undefined for a pull by digest. */
interface HostedPull {
  readonly repository: string;
  readonly digest: Digest;
  readonly tag: string | undefined;
  /** True for a manifest that the client gets as part of a pull that is counted: the image of an index. */
  readonly isPart: boolean;
}

interface HostedPullsDeps {
  readonly counter: PullCounter;
  readonly record: (pull: HostedPull) => void;
}

const windowMs = 30_000;
const mostLooks = 10_000;
const mostTagsOfLook = 8;

/**
 * Returns a function that counts pulls, not requests: one client pulls a tag or a digest once within half a minute.
 * Clients that ask for a tag with HEAD and then get its digest pull the tag. When they asked for several tags of the
 * digest, each further request for it pulls another one. A further manifest by digest, within half a minute, is part of
 * the same pull.
 */
export function countHostedPulls({ counter, record }: HostedPullsDeps): CountHostedPull {
  /** The tags of a digest that a client has looked at. */
  const looks = boundedCache<string, readonly string[]>(mostLooks, { ttl: windowMs });
  return ({ client, isHead, repository, reference, digest }) => {
    const look = `${client} ${repository}@${digest}`;
    const seen = looks.get(look) ?? [];
    if (isHead) {
      if (isDigest(reference)) return;
      const others = seen.filter(tag => tag !== reference);
      looks.set(look, [...others, reference].slice(-mostTagsOfLook));
      return;
    }
    const isCounted = (tag: string) => counter.isRunning(client, `${repository} ${tag}`);
    const looked = seen.find(tag => !isCounted(tag)) ?? seen.at(-1);
    const tag = isDigest(reference) ? looked : reference;
    const isPart = tag === undefined && counter.isRunning(client, repository);
    const pulled = `${repository} ${tag ?? digest}`;
    if (counter.isRunning(client, pulled)) return;
    counter.begin(client, pulled);
    counter.begin(client, repository);
    record({ repository, digest, tag, isPart });
  };
}

/** Counts an answered request for the manifest of a hosted image. */
export type CountHostedPull = (sent: SentManifest) => void;
