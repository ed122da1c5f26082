import { existsSync } from 'node:fs';
import { checkerDirectory, checkerSource } from '../../test/world/tools.ts';
import { buildFromSource } from './go-programs.ts';

export function hasChecker(): boolean {
  return existsSync(checkerDirectory());
}

/** Compiles the program that checks histories, with its library from the Go module proxy. */
export function buildChecker(): Promise<void> {
  return buildFromSource({
    ...{ source: checkerSource, program: 'linear' },
    destination: checkerDirectory(),
    isThere: hasChecker,
    doing: 'Compiling the checker of histories',
  });
}
