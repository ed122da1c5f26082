import { promisify } from 'node:util';
import { brotliCompress, brotliDecompress, constants } from 'node:zlib';
import { pauseTurn } from '../foundation/pause-turn.ts';
import type { FoundInImage, FoundPackage } from './found-in-image.ts';
import { bySeverity, type ScanReport } from './scan-report.ts';
import type { Vulnerability } from './vulnerability.ts';

/** What a scan found, for documents about it. */
export interface ScanDetails {
  /** The most severe ones. */
  readonly vulnerabilities: readonly Vulnerability[];
  /** Undefined where the scanner does not list packages, or where there are too many. */
  readonly packages: readonly FoundPackage[] | undefined;
}

/** Of the vulnerabilities: as many as there is room for. */
const shares = [5000, 500, 100] as const;
const mostPackages = 20_000;
/** The rows of scans are kept for days: usual ones have 10 to 60 KiB. */
const mostPacked = 256 * 1024;
const mostUnpacked = 32 * 1024 * 1024;
// Writing or reading them takes a few ms.
const linesAtOnce = 500;

/**
 * Returns what was found for the rows, with pauses: a line of JSON for each part. Without the packages, and with fewer
 * vulnerabilities, where that would be too long.
 */
export async function packDetails(found: FoundInImage): Promise<Buffer> {
  const sorted = bySeverity(found.vulnerabilities.values());
  const all = found.packages && [...found.packages.values()];
  if (all && all.length <= mostPackages) {
    const whole = await pack({ vulnerabilities: sorted.slice(0, shares[0]), packages: all });
    if (whole.length <= mostPacked) return whole;
  }
  let packed: Buffer | undefined;
  for (const share of shares) {
    packed = await pack({ vulnerabilities: sorted.slice(0, share), packages: undefined });
    if (packed.length <= mostPacked) break;
  }
  return packed as Buffer;
}

/** Returns a report for the rows. */
export function packReport(report: ScanReport): Promise<Buffer> {
  return compress(JSON.stringify(report));
}

export async function unpackReport(packed: Uint8Array): Promise<ScanReport> {
  return JSON.parse(await decompress(packed)) as ScanReport;
}

/** Half the size of gzip in base64, in the same time. */
function compress(text: string): Promise<Buffer> {
  return promisify(brotliCompress)(text, { params: { [constants.BROTLI_PARAM_QUALITY]: 5 } });
}

async function decompress(packed: Uint8Array): Promise<string> {
  const bytes = await promisify(brotliDecompress)(packed, { maxOutputLength: mostUnpacked });
  return bytes.toString();
}

async function pack({ vulnerabilities, packages }: ScanDetails): Promise<Buffer> {
  const count = { vulnerabilities: vulnerabilities.length, hasPackages: packages !== undefined };
  const lines = await linesOf([count, ...vulnerabilities, ...(packages ?? [])]);
  return compress(lines.join('\n'));
}

async function linesOf(values: readonly object[]): Promise<string[]> {
  const lines: string[] = [];
  for (const value of values) {
    if (lines.push(JSON.stringify(value)) % linesAtOnce === 0) await pauseTurn();
  }
  return lines;
}

/** Returns the details that {@link packDetails} wrote, with pauses. */
export async function unpackDetails(packed: Uint8Array): Promise<ScanDetails> {
  const text = await decompress(packed);
  const values: unknown[] = [];
  for (const line of text.split('\n')) {
    if (values.push(JSON.parse(line)) % linesAtOnce === 0) await pauseTurn();
  }
  const [count, ...parts] = values as [
    { readonly vulnerabilities: number; readonly hasPackages: boolean },
    ...unknown[],
  ];
  return {
    vulnerabilities: parts.slice(0, count.vulnerabilities) as Vulnerability[],
    packages: count.hasPackages
      ? (parts.slice(count.vulnerabilities) as FoundPackage[])
      : undefined,
  };
}
