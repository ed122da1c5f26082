import { Fault, type FaultKind } from '../../../foundation/fault.ts';

/** A layer on disk: compressed as it came, or its tar file. */
export interface LayerFile {
  /** How messages call it: `layer 2 of 5`. */
  readonly name: string;
  readonly path: string;
  /** Bytes. */
  readonly size: number;
  /** True when it was put there for the conversion, which removes it. */
  readonly isScratch: boolean;
  /** How well it was compressed, in bytes; undefined where it was not. */
  readonly packed?: { readonly size: number; readonly unpacked: number };
  /** True for a tar file, whatever its first bytes look like. */
  readonly isTar?: true;
}

/** What is wrong with a layer, as a {@link Fault}. */
export function layerFault(
  kind: FaultKind,
  { name }: Pick<LayerFile, 'name'>,
  problem: string,
  cause?: unknown,
): Fault {
  return new Fault(kind, `The image's ${name} ${problem}`, { phase: 'layer', cause });
}
