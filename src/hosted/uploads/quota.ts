import { Fault } from '../../foundation/fault.ts';
import type { Digest } from '../../oci/digest.ts';
import type { HostedStore } from '../../storage/rows/images/hosted-rows.ts';
import type { Reserved } from './reservations.ts';

/** Bytes; undefined for no limit. */
export interface HostedLimits {
  readonly maxBlobBytes: number | undefined;
  readonly maxRepositoryBytes: number | undefined;
  readonly maxTotalBytes: number | undefined;
}

export interface Quota {
  /**
   * Throws a {@link Fault} when the repository may not grow by so many bytes: 413 for a blob that is
   * too large, 403 where the repository or all of them would be. What other uploads take counts too.
   */
  admit(repository: string, bytes: number, others?: Reserved): void;
  /** Admits content that is about to be a part of the repository, and counts it; what is hosted already takes no more room. */
  take(repository: string, digest: Digest, bytes: number): void;
}

export function createQuota(store: HostedStore, limits: HostedLimits): Quota {
  const { maxBlobBytes, maxRepositoryBytes, maxTotalBytes } = limits;
  const admitInto = (repository: string, bytes: number, reserved = 0): void => {
    if (maxBlobBytes !== undefined && bytes > maxBlobBytes) {
      throw new Fault(
        'too-large',
        `A blob may have ${maxBlobBytes} bytes at most here: split the layer, or have the operator raise hosted.maxBlobBytes`,
        { phase: 'push' },
      );
    }
    if (
      maxRepositoryBytes !== undefined &&
      store.repositoryBytes(repository) + reserved + bytes > maxRepositoryBytes
    ) {
      throw full(`The repository ${repository}`, maxRepositoryBytes, 'hosted.maxRepositoryBytes');
    }
  };
  const admitAtAll = (bytes: number, reserved = 0): void => {
    if (maxTotalBytes !== undefined && store.totalBytes() + reserved + bytes > maxTotalBytes) {
      throw full('The registry', maxTotalBytes, 'hosted.maxTotalBytes');
    }
  };

  return {
    admit(repository, bytes, others) {
      admitInto(repository, bytes, others?.inRepository);
      admitAtAll(bytes, others?.inAll);
    },
    take(repository, digest, bytes) {
      admitInto(repository, bytes);
      if (!store.isHeld(digest)) admitAtAll(bytes);
    },
  };
}

function full(what: string, limit: number, setting: string): Fault {
  return new Fault(
    'denied',
    `${what} may hold ${limit} bytes at most, and this push goes beyond: delete what is no longer needed, or have the operator raise ${setting}`,
    { phase: 'push' },
  );
}
