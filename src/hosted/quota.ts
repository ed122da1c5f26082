import { Fault } from '../fault.ts';
import type { HostedStore } from '../store/hosted.ts';

/** Bytes; undefined for no limit. */
export interface HostedLimits {
  readonly maxBlobBytes: number | undefined;
  readonly maxRepositoryBytes: number | undefined;
  readonly maxTotalBytes: number | undefined;
}

export interface Quota {
  /**
   * Throws a {@link Fault} when the repository may not grow by so many bytes: 413 for a blob that is
   * too large, 403 where the repository or all of them would be.
   */
  admit(repository: string, bytes: number): void;
}

// The sum over everything takes its time, and need not be of this very moment.
const totalAgeMs = 1000;

export function createQuota(store: HostedStore, limits: HostedLimits): Quota {
  const { maxBlobBytes, maxRepositoryBytes, maxTotalBytes } = limits;
  let total = { bytes: 0, at: 0 };
  const totalBytes = (): number => {
    const now = Date.now();
    if (now - total.at > totalAgeMs) total = { bytes: store.totalBytes(), at: now };
    return total.bytes;
  };

  return {
    admit(repository, bytes) {
      if (maxBlobBytes !== undefined && bytes > maxBlobBytes) {
        throw new Fault(
          'too-large',
          `A blob may have ${maxBlobBytes} bytes at most here: split the layer, or have the operator raise hosted.maxBlobBytes`,
          { phase: 'push' },
        );
      }
      if (
        maxRepositoryBytes !== undefined &&
        store.repositoryBytes(repository) + bytes > maxRepositoryBytes
      ) {
        throw full(`The repository ${repository}`, maxRepositoryBytes, 'hosted.maxRepositoryBytes');
      }
      if (maxTotalBytes !== undefined && totalBytes() + bytes > maxTotalBytes) {
        throw full('The registry', maxTotalBytes, 'hosted.maxTotalBytes');
      }
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
