import type { Daemon } from './daemon.ts';

/** Begins a line of a server whose answer does not fit its published schema, see `response-check.ts`. */
export const misfitMark = 'ANSWER DOES NOT FIT: ';

/** The variable with the address of the module that servers of a run load in place of `response-check.ts`. */
export const responseCheckVariable = 'SLUICE_TEST_RESPONSE_CHECK';

/** Returns a function that throws if any answer of the server so far did not fit. */
export function watchMisfits(daemon: Daemon): () => void {
  const misfits: string[] = [];
  daemon.onLine(line => {
    if (line.startsWith(misfitMark)) misfits.push(line.slice(misfitMark.length));
  });
  return () => {
    if (misfits.length === 0) return;
    throw new Error(`Answers do not fit docs/openapi.json:\n${[...new Set(misfits)].join('\n')}`);
  };
}
