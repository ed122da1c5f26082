import { readFileSync } from 'node:fs';

const sampleMs = 100;

/** Resident memory of a process over time, in bytes. */
export interface MemoryWatch {
  /** Samples since the last call of `next`. */
  next(): number[];
  stop(): void;
}

export function watchMemory(pid: number): MemoryWatch {
  let samples: number[] = [];
  const timer = setInterval(() => samples.push(residentBytes(pid)), sampleMs);
  return {
    next() {
      const taken = samples;
      samples = [];
      return taken;
    },
    stop: () => clearInterval(timer),
  };
}

/** Returns the resident memory of a process, in bytes. */
export function residentBytes(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  return Number(/^VmRSS:\s*(\d+) kB$/m.exec(status)?.[1]) * 1024;
}
