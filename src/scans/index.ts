/** Scans of images for known vulnerabilities. */

export { type AdapterSettings, createHarborAdapter } from './harbor-adapter.ts';
export { severities, type Vulnerability } from './scan-report.ts';
export { createScans, type Scan, type Scans } from './scans.ts';
