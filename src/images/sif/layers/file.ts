import { Fault, type FaultKind } from '../../../foundation/fault.ts';

/** A layer on disk: compressed as received, or its tar file. */
export interface LayerFile {
  /** Name in messages: `layer 2 of 5`. */
  readonly name: string;
  readonly path: string;
  /** Bytes. */
  readonly size: number;
  /** True for a file that the conversion created and removes. */
  readonly isScratch: boolean;
  /** Compressed and uncompressed size in bytes; undefined for an uncompressed layer. */
  readonly packed?: { readonly size: number; readonly unpacked: number };
  /** True for a tar file, regardless of its first bytes. */
  readonly isTar?: true;
}

/** Returns a {@link Fault} for a problem with a layer. */
export function layerFault(
  kind: FaultKind,
  { name }: Pick<LayerFile, 'name'>,
  problem: string,
  cause?: unknown,
): Fault {
  return new Fault(kind, `The image's ${name} ${problem}`, { phase: 'layer', cause });
}
