import { Fault } from '../../foundation/fault.ts';
import type {
  HostedLimit,
  HostedLimits,
  HostedSums,
} from '../../storage/rows/hosted/hosted-store.ts';
import type { Reserved } from './reservations.ts';

/** How much the hosted repositories may hold. */
export interface Quota {
  readonly limits: HostedLimits;
  /**
   * Throws a {@link Fault} when the repository cannot grow by so many bytes: 413 for a blob that is too large, 403 for
   * a repository or a registry that would be. Includes what other uploads take. The store checks again when it puts the
   * content into the repository.
   */
  admit(repository: string, bytes: number, others?: Reserved): Promise<void>;
  /** Returns the {@link Fault} for a push that reaches a limit. */
  refusal(repository: string, limit: HostedLimit): Fault;
}

export function createQuota(store: HostedSums, limits: HostedLimits): Quota {
  const { maxBlobBytes, maxRepositoryBytes, maxTotalBytes } = limits;

  const refusal = (repository: string, limit: HostedLimit): Fault => {
    switch (limit) {
      case 'maxBlobBytes':
        return new Fault(
          'too-large',
          `A blob can have at most ${maxBlobBytes} bytes here: split the layer, or ask the operator to raise hosted.maxBlobBytes`,
          { phase: 'push' },
        );
      case 'maxRepositoryBytes':
        return full(`The repository ${repository}`, maxRepositoryBytes, limit);
      case 'maxTotalBytes':
        return full('The registry', maxTotalBytes, limit);
    }
  };

  return {
    limits,
    refusal,

    async admit(repository, bytes, { inRepository, inAll } = { inRepository: 0, inAll: 0 }) {
      const isOver = (sum: number, limit: number | undefined) => limit !== undefined && sum > limit;
      if (isOver(bytes, maxBlobBytes)) throw refusal(repository, 'maxBlobBytes');
      if (maxRepositoryBytes !== undefined) {
        const sum = (await store.repositoryBytes(repository)) + inRepository + bytes;
        if (isOver(sum, maxRepositoryBytes)) throw refusal(repository, 'maxRepositoryBytes');
      }
      if (maxTotalBytes !== undefined) {
        const sum = (await store.totalBytes()) + inAll + bytes;
        if (isOver(sum, maxTotalBytes)) throw refusal(repository, 'maxTotalBytes');
      }
    },
  };
}

function full(what: string, bytes: number | undefined, limit: HostedLimit): Fault {
  return new Fault(
    'denied',
    `${what} can hold at most ${bytes} bytes, and this push goes beyond: delete what is no longer needed, or ask the operator to raise hosted.${limit}`,
    { phase: 'push' },
  );
}
