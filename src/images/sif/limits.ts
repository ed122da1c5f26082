import { Fault } from '../../foundation/fault.ts';

/** Limits of a conversion. A conversion that exceeds one fails with a {@link Fault} of kind `too-large`. */
export interface ConvertLimits {
  /** Files, directories and links in all layers together. */
  readonly maxEntries: number;
  /** Bytes that all layers together may unpack to. */
  readonly maxUnpackedBytes: number;
  /** Bytes on disk at any moment: the fetched layers and the SIF file. */
  readonly maxScratchBytes: number;
}

/**
 * @param limit the limit that the image exceeds, such as `1000 files`
 * @param setting the setting of the limit, such as `maxFiles`; undefined for a limit that cannot be changed
 */
export function imageTooLarge(limit: string, setting?: string): Fault {
  const orElse = setting === undefined ? '' : `, or ask the operator to raise sif.${setting}`;
  return new Fault(
    'too-large',
    `The image exceeds the limit of ${limit} for Singularity images: make it smaller${orElse}`,
    { phase: 'limit' },
  );
}
