/**
 * Yields a text as server-sent events: one event for each line, then `end`. Sends a comment after each quiet period,
 * because proxies close idle connections.
 * Source: WHATWG HTML, Server-sent events.
 *
 * @param quietMs length of a quiet period, ms
 */
export async function* logEvents(
  pieces: AsyncIterator<Buffer>,
  quietMs: number,
): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = '';
  try {
    for (let next = pieces.next(); ; ) {
      const found = await within(next, quietMs);
      if (!found) {
        yield ':\n\n';
        continue;
      }
      if (found.done) break;
      const lines = (rest + decoder.decode(found.value, { stream: true })).split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) yield eventOf(line);
      next = pieces.next();
    }
  } finally {
    await pieces.return?.();
  }
  if (rest !== '') yield eventOf(rest);
  yield 'event: end\ndata:\n\n';
}

/** Splits at carriage returns too: progress output contains them, and they also end a line of an event. */
function eventOf(line: string): string {
  const parts = line.replace(/\r$/, '').split('\r');
  return `${parts.map(part => `data: ${part}\n`).join('')}\n`;
}

/** Returns undefined if the work takes longer than `ms`. */
async function within<T>(work: Promise<T>, ms: number): Promise<T | undefined> {
  const { promise, resolve } = Promise.withResolvers<undefined>();
  const timer = setTimeout(resolve, ms, undefined);
  try {
    return await Promise.race([work, promise]);
  } finally {
    clearTimeout(timer);
  }
}
