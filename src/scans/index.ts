/** Scans of images for known vulnerabilities. */

export { type AdapterSettings, createHarborAdapter } from './harbor-adapter.ts';
export { type ScanReport, type Severity, severities, type Vulnerability } from './scan-report.ts';
export { createScans, type Scan, type ScanLimits, type Scans } from './scans.ts';
