import { isAnonymousContext } from './context-repository.ts';

/** Bytes that open uploads use or have announced. */
export interface Reserved {
  /** In one repository. */
  readonly inRepository: number;
  /** In the repositories for the build contexts of callers without a login. */
  readonly inAnonymous: number;
  /** In all of them. */
  readonly inAll: number;
}

/** The bytes of one upload. */
export interface Reservation {
  /** Returns the bytes of the other uploads. */
  others(): Reserved;
  /** Sets the bytes of this upload. */
  set(bytes: number): void;
}

/** Sums the bytes of open uploads, so that concurrent uploads do not exceed a quota together. */
export function createReservations(): (repository: string) => Reservation {
  const sums = new Map<string, number>();
  let inAll = 0;
  let inAnonymous = 0;

  return repository => {
    const isAnonymous = isAnonymousContext(repository);
    let own = 0;
    return {
      others: () => ({
        inRepository: (sums.get(repository) ?? 0) - own,
        inAnonymous: inAnonymous - (isAnonymous ? own : 0),
        inAll: inAll - own,
      }),
      set(bytes) {
        const sum = (sums.get(repository) ?? 0) + bytes - own;
        inAll += bytes - own;
        if (isAnonymous) inAnonymous += bytes - own;
        own = bytes;
        if (sum > 0) sums.set(repository, sum);
        else sums.delete(repository);
      },
    };
  };
}
