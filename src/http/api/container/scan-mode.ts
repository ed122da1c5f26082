import { Fault } from '../../../foundation/fault.ts';
import type { Submission } from '../../../request/index.ts';
import { acceptedLevels, mustScan, type ScanPolicy } from '../../../scans/index.ts';

const noScan = 'this server does not scan images';
const notHeld =
  "pulls of frozen images and copies are not held back. With 'async' they are scanned, and 'scanUri' in the response shows the result";
const notRead = 'scanners read no Singularity images';

/** What a server does about scans. */
export interface ScanRules {
  /** Undefined where the operator has set no scanner. */
  readonly scans: object | undefined;
  readonly scanPolicy: ScanPolicy;
  /** True where images are frozen although their requests do not say so. */
  readonly freezesAll: boolean;
}

/**
 * Returns a submission as this server can honour its `scanMode`, with warnings about what it cannot. Throws a `Fault` for a scan that
 * the caller relies on.
 *
 * @param user the caller; undefined for one without a login
 */
export function checkScanMode(
  submission: Submission,
  { scans, scanPolicy, freezesAll }: ScanRules,
  user: string | undefined,
): { readonly submission: Submission; readonly warnings: readonly string[] } {
  const { scanMode, scanLevels, ...without } = submission;
  const isCopied = submission.freeze === true || submission.mirror === true || freezesAll;
  if (mustScan(scanPolicy, user)) return withRequiredScan(submission, scanPolicy, isCopied);
  const isRequired = scanMode === 'required';
  const why = reasonAgainst(isRequired && isCopied, submission, scans);
  if (why === undefined) return { submission, warnings: [] };
  if (isRequired) {
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

/** Returns why this server cannot scan an image as its request asks; undefined if it can. */
function reasonAgainst(
  holdsCopies: boolean,
  { format }: Submission,
  scans: object | undefined,
): string | undefined {
  if (scans === undefined) return noScan;
  if (format === 'sif') return notRead;
  return holdsCopies ? notHeld : undefined;
}

/** Returns a submission with the scan that the operator requires of its caller. */
function withRequiredScan(submission: Submission, policy: ScanPolicy, isCopied: boolean) {
  if (isCopied) {
    const who = policy.required === 'all' ? 'all callers' : 'callers without a login';
    throw new Fault(
      'bad-request',
      `'freeze' and 'mirror' are refused: this server requires a security scan of the images of ${who}, and cannot hold back pulls of frozen images and copies. Leave the field out${policy.required === 'all' ? '' : ', or log in'}`,
      { phase: 'request' },
    );
  }
  const { scanMode, scanLevels } = submission;
  const own = scanMode === 'required' ? (scanLevels ?? []) : undefined;
  const levels = acceptedLevels(policy, own);
  const accepted = levels.length === 0 ? 'none is accepted' : `accepted: ${levels.join(', ')}`;
  const isAsked = own !== undefined && own.length === levels.length;
  return {
    submission: { ...submission, scanMode: 'required' as const, scanLevels: levels },
    warnings: isAsked
      ? []
      : [
          `This server requires a security scan: pulls wait for it, and are refused if it finds other severities (${accepted})`,
        ],
  };
}
