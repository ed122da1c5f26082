import { z } from 'zod';
import { Fault } from '../foundation/fault.ts';

/** Severities, the most severe first. `NEGLIGIBLE` counts as `LOW`. Source: reference service, `scanLevels`. */
export const severities = ['CRITICAL', 'HIGH', 'MEDIUM', 'LOW', 'UNKNOWN'] as const;
export type Severity = (typeof severities)[number];

export interface Vulnerability {
  readonly id: string;
  readonly severity: Severity;
  readonly title: string;
  readonly pkgName: string;
  readonly installedVersion: string;
  readonly fixedVersion?: string;
  readonly primaryUrl?: string;
  /** Digest of the layer with the package. */
  readonly layer?: string;
}

/** What a scanner found. */
export interface ScanReport {
  /** Name and version of the scanner. */
  readonly scanner: string;
  /** All vulnerabilities, also those that are not listed. */
  readonly counts: Readonly<Partial<Record<Severity, number>>>;
  /** The most severe ones. */
  readonly vulnerabilities: readonly Vulnerability[];
}

const mostListed = 100;
const mostFound = 100_000;

const text = (most: number) =>
  z
    .string()
    .nullish()
    .transform(value => (value ?? '').slice(0, most));
const vulnerability = z.object({
  id: text(100),
  package: text(200),
  version: text(200),
  fix_version: text(200),
  severity: text(20),
  description: text(300),
  links: z.array(z.unknown()).nullish(),
  layer: z.object({ digest: text(100) }).nullish(),
});
const harborReport = z.object({
  artifact: z.object({ digest: z.string().nullish() }).nullish(),
  // Scanners written in Go send null for an empty list. A report without the field is not a report.
  vulnerabilities: z.array(vulnerability).max(mostFound).nullable(),
});

/**
 * Reads a vulnerability report of a Harbor scanner adapter. All of its texts come from outside: they are cut here, and escaped where
 * they are shown. Throws a `Fault` for a document that is not such a report, or that is about another image.
 */
export function readHarborReport(body: unknown, digest: string): readonly Vulnerability[] {
  const read = harborReport.safeParse(body);
  if (!read.success) {
    const [issue] = read.error.issues;
    throw unusable(`a report with a wrong ${issue?.path.join('.') || 'form'}`);
  }
  const about = read.data.artifact?.digest;
  if (about && about !== digest) throw unusable('a report about another image');
  return (read.data.vulnerabilities ?? []).map(found => {
    const [link] = found.links ?? [];
    return {
      id: found.id,
      severity: severityOf(found.severity),
      title: found.description,
      pkgName: found.package,
      installedVersion: found.version,
      ...(found.fix_version === '' ? {} : { fixedVersion: found.fix_version }),
      ...(typeof link === 'string' && isWebAddress(link) ? { primaryUrl: link } : {}),
      ...(found.layer?.digest ? { layer: found.layer.digest } : {}),
    };
  });
}

/** Returns the report of an image from what was found in each of its platforms: equal findings count once. */
export function combine(scanner: string, found: readonly (readonly Vulnerability[])[]): ScanReport {
  const all = new Map<string, Vulnerability>();
  for (const one of found.flat()) {
    all.set(JSON.stringify([one.id, one.severity, one.pkgName, one.installedVersion]), one);
  }
  const counts: Partial<Record<Severity, number>> = {};
  const listed: Vulnerability[] = [];
  const bySeverity = Map.groupBy(all.values(), ({ severity }) => severity);
  for (const severity of severities) {
    const some = bySeverity.get(severity) ?? [];
    if (some.length > 0) counts[severity] = some.length;
    listed.push(...some.slice(0, mostListed - listed.length));
  }
  return { scanner, counts, vulnerabilities: listed };
}

/** Returns the severities in a report that a request does not accept. */
export function outside({ counts }: ScanReport, levels: readonly string[]): Severity[] {
  return severities.filter(severity => counts[severity] && !levels.includes(severity));
}

function severityOf(sent: string): Severity {
  const name = sent.toUpperCase();
  return severities.find(one => one === name) ?? (name === 'NEGLIGIBLE' ? 'LOW' : 'UNKNOWN');
}

function isWebAddress(link: string): boolean {
  const protocol = link.length <= 500 ? URL.parse(link)?.protocol : undefined;
  return protocol === 'https:' || protocol === 'http:';
}

export function unusable(what: string): Fault {
  return new Fault('upstream-unusable', `The scanner sent ${what}`, { phase: 'upstream' });
}
