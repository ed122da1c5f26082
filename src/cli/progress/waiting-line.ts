// Most responses are there before anybody wonders.
const patienceMs = 300;
const redrawMs = 1000;

/** Shows on a terminal what the command waits for, and for how long, while the work goes on. Leaves nothing behind. */
export async function withWaitingLine<T>(
  sink: NodeJS.WriteStream,
  what: string,
  work: () => Promise<T>,
): Promise<T> {
  if (!sink.isTTY || process.env.TERM === 'dumb') return work();
  const begin = Date.now();
  let isShown = false;
  let timer: NodeJS.Timeout;
  const show = () => {
    isShown = true;
    sink.write(`\r\x1b[K${what} ... ${Math.floor((Date.now() - begin) / 1000)} s`);
    timer = setTimeout(show, redrawMs);
  };
  timer = setTimeout(show, patienceMs);
  try {
    return await work();
  } finally {
    clearTimeout(timer);
    if (isShown) sink.write('\r\x1b[K');
  }
}
