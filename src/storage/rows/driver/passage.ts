/** Lets work run side by side, and work that would never end beside other work alone. */
export interface Passage {
  /** Runs the work beside others, and waits while some work is alone. */
  together<T>(work: () => Promise<T>): Promise<T>;
  /** Waits until all work that runs has ended, and runs this one alone. */
  alone<T>(work: () => Promise<T>): Promise<T>;
}

export function createPassage(): Passage {
  let inside = 0;
  let lone: Promise<void> | undefined;
  let onEmpty = () => {};

  return {
    async together(work) {
      while (lone) await lone;
      inside += 1;
      try {
        return await work();
      } finally {
        inside -= 1;
        if (inside === 0) onEmpty();
      }
    },

    async alone(work) {
      while (lone) await lone;
      const { promise, resolve } = Promise.withResolvers<void>();
      lone = promise;
      try {
        if (inside > 0) {
          const empty = Promise.withResolvers<void>();
          onEmpty = empty.resolve;
          await empty.promise;
        }
        return await work();
      } finally {
        lone = undefined;
        resolve();
      }
    },
  };
}
