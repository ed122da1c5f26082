/**
 * Joins calls for one key. A call never gets an answer that is older than itself: a call that arrives
 * while another runs waits for the next run, which all waiting calls share.
 */
export function createCoalescer<T>(): (key: string, run: () => Promise<T>) => Promise<T> {
  const running = new Map<string, { current: Promise<T>; next: Promise<T> | undefined }>();

  const start = (key: string, run: () => Promise<T>): Promise<T> => {
    const entry = { current: run(), next: undefined };
    running.set(key, entry);
    const leave = () => {
      if (running.get(key) === entry && entry.next === undefined) running.delete(key);
    };
    entry.current.then(leave, leave);
    return entry.current;
  };

  return (key, run) => {
    const entry = running.get(key);
    if (!entry) return start(key, run);
    const begin = () => start(key, run);
    entry.next ??= entry.current.then(begin, begin);
    return entry.next;
  };
}
