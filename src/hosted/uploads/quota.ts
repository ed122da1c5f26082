import { Fault } from '../../foundation/fault.ts';
import type { HostedLimit, HostedLimits, HostedSums } from '../../storage/rows/index.ts';
import { anonymousContexts, contextPrefix, isAnonymousContext } from './context-repository.ts';
import type { Reserved } from './reservations.ts';

/** Limits of repositories for build contexts, in bytes; undefined for no limit. */
export interface ContextLimits {
  /** Limit of one user. */
  readonly maxContextBytes: number | undefined;
  /** Limit of one network, for callers without a login. */
  readonly maxNetworkBytes: number | undefined;
  /** Limit of all these networks together. */
  readonly maxBytes: number | undefined;
}

/** Limits of the size of hosted repositories. */
export interface Quota {
  /** Returns the limits of a repository. */
  limitsOf(repository: string): HostedLimits;
  /**
   * Throws a {@link Fault} when the repository cannot grow by so many bytes: 413 for a blob that is too large, 403
   * when the repository or the registry would become too large. Includes the bytes of other uploads. The store checks
   * again when it puts the content into the repository.
   */
  admit(repository: string, bytes: number, others?: Reserved): Promise<void>;
  /** Returns the {@link Fault} for a push that reaches a limit. */
  refusal(repository: string, limit: HostedLimit): Fault;
}

const noOthers: Reserved = { inRepository: 0, inAnonymous: 0, inAll: 0 };

export function createQuota(
  store: HostedSums,
  limits: HostedLimits,
  contexts: ContextLimits,
): Quota {
  const limitsOf = (repository: string): HostedLimits => {
    if (!repository.startsWith(contextPrefix)) return limits;
    const isAnonymous = isAnonymousContext(repository);
    const most = isAnonymous ? contexts.maxNetworkBytes : contexts.maxContextBytes;
    return { ...limits, maxRepositoryBytes: most };
  };

  const refusal = (repository: string, limit: HostedLimit): Fault => {
    const { maxBlobBytes, maxRepositoryBytes, maxTotalBytes } = limitsOf(repository);
    switch (limit) {
      case 'maxBlobBytes':
        return new Fault(
          'too-large',
          `A blob can have at most ${maxBlobBytes} bytes here: split the layer, or ask the operator to raise hosted.maxBlobBytes`,
          { phase: 'push' },
        );
      case 'maxRepositoryBytes':
        if (isAnonymousContext(repository)) {
          return fullContexts('Your network', maxRepositoryBytes, 'anonymous.maxNetworkBytes');
        }
        if (repository.startsWith(contextPrefix)) {
          return fullContexts('You', maxRepositoryBytes, 'hosted.maxContextBytes');
        }
        return full(`The repository ${repository}`, maxRepositoryBytes, limit);
      case 'maxTotalBytes':
        return full('The registry', maxTotalBytes, limit);
    }
  };

  return {
    limitsOf,
    refusal,

    async admit(repository, bytes, { inRepository, inAnonymous, inAll } = noOthers) {
      const { maxBlobBytes, maxRepositoryBytes, maxTotalBytes } = limitsOf(repository);
      const isOver = (sum: number, limit: number | undefined) => limit !== undefined && sum > limit;
      if (isOver(bytes, maxBlobBytes)) throw refusal(repository, 'maxBlobBytes');
      if (maxRepositoryBytes !== undefined) {
        const sum = (await store.repositoryBytes(repository)) + inRepository + bytes;
        if (isOver(sum, maxRepositoryBytes)) throw refusal(repository, 'maxRepositoryBytes');
      }
      if (isAnonymousContext(repository) && contexts.maxBytes !== undefined) {
        const sum = (await store.bytesBelow(anonymousContexts)) + inAnonymous + bytes;
        if (sum > contexts.maxBytes) {
          throw fullContexts('Callers without a login', contexts.maxBytes, 'anonymous.maxBytes');
        }
      }
      if (maxTotalBytes !== undefined) {
        const sum = (await store.totalBytes()) + inAll + bytes;
        if (isOver(sum, maxTotalBytes)) throw refusal(repository, 'maxTotalBytes');
      }
    },
  };
}

function fullContexts(who: string, bytes: number | undefined, setting: string): Fault {
  return new Fault(
    'denied',
    `${who} can store build contexts of at most ${bytes} bytes here, and this upload exceeds the limit: build from a smaller directory, wait until earlier contexts expire, or ask the operator to raise ${setting}`,
    { phase: 'push' },
  );
}

function full(what: string, bytes: number | undefined, limit: HostedLimit): Fault {
  return new Fault(
    'denied',
    `${what} can hold at most ${bytes} bytes, and this push exceeds the limit: delete images that you no longer need, or ask the operator to raise hosted.${limit}`,
    { phase: 'push' },
  );
}
