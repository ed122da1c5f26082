import { Fault } from '../../../foundation/fault.ts';
import type { Submission } from '../../../request/index.ts';

const noScan = 'this server does not scan images';

/**
 * Returns a submission as this server can honour its `scanMode`, with warnings about what it cannot. Throws a `Fault` for a scan that
 * the caller relies on.
 *
 * @param canScan true where the operator has set a scanner
 * @param freezesAll true where images are frozen although their requests do not say so
 */
export function scanWish(
  submission: Submission,
  canScan: boolean,
  freezesAll = false,
): { readonly submission: Submission; readonly warnings: readonly string[] } {
  const { scanMode, scanLevels, freeze, mirror, ...rest } = submission;
  const without = { ...rest, freeze, mirror };
  const isCopied = freeze === true || mirror === true || freezesAll;
  if (canScan && !isCopied) return { submission, warnings: [] };
  const why = canScan
    ? 'this server scans the images that it serves, and does not serve frozen images and copies'
    : noScan;
  if (scanMode === 'required') {
    throw new Fault(
      'bad-request',
      `'scanMode' cannot be honoured: ${why}. Scan the image before you use it, and leave the field out`,
      { phase: 'request' },
    );
  }
  const ignored = [
    ...(scanMode === 'async' ? ['scanMode'] : []),
    ...(scanLevels?.length ? ['scanLevels'] : []),
  ];
  return { submission: without, warnings: ignored.map(name => `'${name}' is ignored: ${why}`) };
}
