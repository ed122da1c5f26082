/** Bytes that uploads which are not yet blobs take, or are about to. */
export interface Reserved {
  /** In one repository. */
  readonly inRepository: number;
  /** In all of them. */
  readonly inAll: number;
}

/** The bytes of one upload. */
export interface Reservation {
  /** Those of the other uploads. */
  others(): Reserved;
  /** Sets how many bytes it takes. */
  set(bytes: number): void;
}

/** Sums what open uploads take, so that uploads beside each other do not pass a quota that each of them keeps. */
export function createReservations(): (repository: string) => Reservation {
  const sums = new Map<string, number>();
  let inAll = 0;

  return repository => {
    let own = 0;
    return {
      others: () => ({ inRepository: (sums.get(repository) ?? 0) - own, inAll: inAll - own }),
      set(bytes) {
        const sum = (sums.get(repository) ?? 0) + bytes - own;
        inAll += bytes - own;
        own = bytes;
        if (sum > 0) sums.set(repository, sum);
        else sums.delete(repository);
      },
    };
  };
}
