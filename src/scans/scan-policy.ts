import { Fault } from '../foundation/fault.ts';
import type { ContainerRequest, WantedScan } from '../request/index.ts';
import type { Severity } from './vulnerability.ts';

/** What the operator requires of images that are served. */
export interface ScanPolicy {
  /** Whose images must have passed a scan: those of callers without a login, or of all. */
  readonly required: 'off' | 'anonymous' | 'all';
  /** Severities that such a scan may find. */
  readonly levels: readonly Severity[];
}

/** Returns true if the images of a caller must have passed a scan. */
export function mustScan({ required }: ScanPolicy, user: string | undefined): boolean {
  return required === 'all' || (required === 'anonymous' && user === undefined);
}

/** Returns the severities that both the operator and a caller accept. */
export function acceptedLevels(
  { levels }: ScanPolicy,
  own: readonly string[] | undefined,
): readonly string[] {
  return own ? levels.filter(one => own.includes(one)) : levels;
}

/**
 * Returns the scan that the image of a request must pass; undefined for one that needs none. Throws a `Fault` for a name that was
 * requested without a scan before the operator required one.
 */
export function scanToPass(
  policy: ScanPolicy,
  { scan, caller }: Pick<ContainerRequest, 'scan' | 'caller'>,
): WantedScan | undefined {
  const own = scan?.mode === 'required' ? scan : undefined;
  if (!mustScan(policy, caller.user)) return own;
  if (scan) return { ...scan, mode: 'required', levels: acceptedLevels(policy, own?.levels) };
  throw new Fault(
    'denied',
    'This server serves images after a security scan only (scans.required), and this one was requested without: request it again',
    { phase: 'request' },
  );
}
