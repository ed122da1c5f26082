import type { Check } from '../request-state.ts';

const reads = new Set(['GET', 'HEAD', 'OPTIONS']);

/** Refuses requests that may change something while no change can succeed, before their bodies are read. */
export function requireChanges(rows: { requireChanges(): void }): Check {
  return ({ method }) => {
    if (!reads.has(method)) rows.requireChanges();
  };
}
