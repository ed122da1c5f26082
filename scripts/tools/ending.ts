const controller = new AbortController();
let isHandled = false;

/** Aborted when this program is to end: programs that run are ended, and what was begun is removed. */
export const ending: AbortSignal = controller.signal;

/** True when a signal to this program ends the programs that it runs, and they need not get it themselves. */
export function handlesEnding(): boolean {
  return isHandled;
}

/** From now on a signal aborts {@link ending} and nothing else; `isLeashed` for the end of standard input, too. */
export function handleEnding(isLeashed: boolean): void {
  isHandled = true;
  const end = () => controller.abort(new Error('The installation was ended'));
  for (const name of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(name, end);
  if (isLeashed) process.stdin.on('end', end).on('error', end).resume().unref();
}
