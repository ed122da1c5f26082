const controller = new AbortController();
let isHandled = false;

/** Aborted when this program must end: running programs are stopped, and partial results removed. */
export const ending: AbortSignal = controller.signal;

/** True when a signal to this program stops the programs that it runs, so that they need not receive it. */
export function handlesEnding(): boolean {
  return isHandled;
}

/** From now on a signal only aborts {@link ending}. With `isLeashed`, so does the end of standard input. */
export function handleEnding(isLeashed: boolean): void {
  isHandled = true;
  const end = () => controller.abort(new Error('The installation was ended'));
  for (const name of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(name, end);
  if (isLeashed) process.stdin.on('end', end).on('error', end).resume().unref();
}
