import { existsSync } from 'node:fs';
import {
  estargzDirectory,
  estargzSource,
  stargzDirectory,
  stargzSource,
} from '../../test/world/tools.ts';
import { buildFromSource } from './go-programs.ts';

export function hasEstargz(): boolean {
  return existsSync(estargzDirectory());
}

/** Compiles the program that verifies layers in the eStargz form, with the library of stargz-snapshotter. */
export function buildEstargz(): Promise<void> {
  return buildFromSource({
    ...{ source: estargzSource, program: 'verify-estargz' },
    destination: estargzDirectory(),
    isThere: hasEstargz,
    doing: 'Compiling the verifier of eStargz layers',
  });
}

export function hasStargz(): boolean {
  return existsSync(stargzDirectory());
}

/** Compiles the lazy snapshotter for containerd, with the packages of stargz-snapshotter. */
export function buildStargz(): Promise<void> {
  return buildFromSource({
    ...{ source: stargzSource, program: 'stargz' },
    destination: stargzDirectory(),
    isThere: hasStargz,
    doing: 'Compiling the lazy snapshotter for containerd',
  });
}
