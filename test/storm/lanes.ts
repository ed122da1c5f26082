const lanes = 4;

/** Does the work for each entry, some at once, in their order. */
export async function inLanes<T>(
  entries: Iterable<T>,
  work: (entry: T) => Promise<unknown>,
): Promise<void> {
  const left = entries[Symbol.iterator]();
  const lane = async () => {
    for (let next = left.next(); !next.done; next = left.next()) await work(next.value);
  };
  await Promise.all(Array.from({ length: lanes }, lane));
}
