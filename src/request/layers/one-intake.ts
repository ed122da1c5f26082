import type { InjectedLayer } from '../../images/augment/index.ts';
import type { Caller } from '../container-request.ts';
import type { UnpackLimits } from './layer-check.ts';

export interface LayerLimits {
  /** Maximum number of layers in one request. */
  readonly maxCount: number;
  /** Maximum bytes of a gzip file in the request itself. */
  readonly maxInlineBytes: number;
  /** Maximum bytes of a gzip file behind a URL. */
  readonly maxUrlBytes: number;
  /** Maximum unpacked bytes of all layers of one request. */
  readonly maxTarBytes: number;
  /** Timeout for fetching a URL (ms). */
  readonly fetchTimeout: number;
}

/** The caller: its rights are used for URLs, and its share for content. */
export interface LayerCaller extends Pick<Caller, 'grant' | 'network' | 'user'> {
  /** Aborted when the caller disconnects: a fetch without waiting callers ends. */
  readonly signal?: AbortSignal | undefined;
}

/** The layers of one request. */
export interface Intake extends LayerCaller {
  /** The network whose share the content counts towards. */
  readonly payer: string | undefined;
  readonly unpacked: UnpackLimits['room'];
  readonly inspect?: UnpackLimits['inspect'];
  readonly packing?: UnpackLimits['packing'];
  /** When set, a layer that differs is refused before anything of it is kept. */
  readonly expected?: Measured;
}

/** The measured digests and size of a layer. They are of the file as it is packed, which is in gzip before it is part of an image. */
export type Measured = Pick<InjectedLayer, 'gzipDigest' | 'gzipSize' | 'tarDigest'>;

/** Returns true for the same file. */
export function isSame(one: Measured, other: Measured): boolean {
  return (
    one.gzipDigest === other.gzipDigest &&
    one.gzipSize === other.gzipSize &&
    one.tarDigest === other.tarDigest
  );
}
