/** Scans of images for known vulnerabilities. */

export { createBilledImages } from './billed-image.ts';
export { countAll, type FindingsPage, type FindingsQuery, findingOrders } from './findings.ts';
export { type AdapterSettings, createHarborAdapter } from './harbor-adapter.ts';
export { findScannerProgram } from './programs/find-program.ts';
export { createScannerProgram, type ProgramSettings } from './programs/scanner-program.ts';
export {
  acceptedLevels,
  mustScan,
  type ScanPolicy,
  scanToPass,
} from './scan-policy.ts';
export type { ScanReferrers } from './scan-referrers.ts';
export type { Scanner } from './scanner.ts';
export { createScans, readEndedScan, refusalOf, type Scan, type Scans } from './scans.ts';
export { severities, type Vulnerability } from './vulnerability.ts';
