import { createInterface } from 'node:readline';
import type { Sluice } from '../world/sluice.ts';
import type { Tally } from './tally.ts';

const isError = /"level":"(?:error|fatal)"/;

/** Counts what a server logs about its sweeps, and its errors. */
export function countLog({ process }: Sluice, tally: Tally): void {
  if (!process.stdout) return;
  createInterface({ input: process.stdout }).on('line', line => {
    const isSweep = line.includes('"msg":"swept"');
    if (!isSweep && !isError.test(line)) return;
    const { msg, removed, err } = parse(line);
    if (!isSweep) {
      tally.refuse(`log: ${msg}`, new Error(err?.message ?? ''));
      return;
    }
    tally.count('sweeps');
    tally.count('contents swept', removed);
  });
}

interface Line {
  readonly msg?: string;
  readonly removed?: number;
  readonly err?: { readonly message?: string };
}

/** The last line of a server that was killed may break off. */
function parse(line: string): Line {
  try {
    return JSON.parse(line) as Line;
  } catch {
    return {};
  }
}
