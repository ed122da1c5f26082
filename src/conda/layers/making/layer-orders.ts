import type { Fault } from '../../../foundation/fault.ts';
import type { Digest } from '../../../oci/digest.ts';
import type { LayerSubject } from '../layer-key.ts';
import type { PieceRing } from './piece-ring.ts';

/** Work for a thread that makes layers. */
export type LayerOrder = PackageOrder | SharedOrder | TarOrder;

/** Installs a package and packs its files. */
export interface PackageOrder {
  readonly kind: 'package';
  readonly subject: LayerSubject;
  /** The file with the archive. Its digest was verified. */
  readonly archive: string;
  readonly limits: UnpackLimits;
  /** True while other threads work: a package that needs much memory is refused. */
  readonly isShared?: boolean;
}

/** Bounds of one package. */
export interface UnpackLimits {
  readonly maxUnpackedBytes: number;
  readonly maxFiles: number;
}

/** Puts layers together. */
export interface SharedOrder {
  readonly kind: 'shared';
  /** Files of layers. */
  readonly layers: readonly { readonly path: string; readonly size: number }[];
}

/** Packs tar entries. */
export interface TarOrder {
  readonly kind: 'tar';
  /** Without the end of a tar file. */
  readonly tar: Uint8Array;
}

export interface MadeLayer {
  readonly tarDigest: Digest;
  /** Bytes of the tar file. */
  readonly tarBytes: number;
  /** For a layer of one package. */
  readonly about?: PackageAbout | undefined;
}

/** What is kept about a package beside its layer. */
export interface PackageAbout {
  /** JSON of `PackageFacts`. */
  readonly facts: string;
  readonly pathHashes: Uint8Array;
  readonly paths: Uint8Array;
}

/** What a thread is started with for each order. */
export interface OrderMessage {
  readonly order: LayerOrder;
  readonly pieces: PieceRing;
  /** Receives how far the layer of a package is, as in `PackageProgress`. */
  readonly written?: Float64Array | undefined;
}

/** What a thread answers: any number of pieces of the layer, then one of the others. */
export type LayerResponse =
  /** Bytes of the next piece in the ring. */
  | { readonly piece: number }
  | { readonly made: MadeLayer }
  | { readonly fault: Pick<Fault, 'kind' | 'phase' | 'message'> }
  /** The package needs much memory: it must be the only one. */
  | { readonly isLarge: true }
  | { readonly error: unknown };
