import { z } from 'zod';
import { pauseTurn } from '../foundation/pause-turn.ts';
import type { FoundInImage } from './found-in-image.ts';
import { unusable } from './unusable-report.ts';
import { type Severity, severities, type Vulnerability } from './vulnerability.ts';

/** What a scanner found. */
export interface ScanReport {
  /** Name and version of the scanner. */
  readonly scanner: string;
  /** All vulnerabilities, also those that are not listed. */
  readonly counts: Readonly<Partial<Record<Severity, number>>>;
  /** The most severe ones. */
  readonly vulnerabilities: readonly Vulnerability[];
  /**
   * `layers`: all files were read. `bill`: packages by their bill of materials, and the files of the other layers. Undefined in reports of
   * earlier versions, which are of layers.
   */
  readonly scanned?: 'layers' | 'bill';
  /** Number of packages in the image; undefined where the scanner does not list them. */
  readonly packages?: number;
}

const mostListed = 100;
// Of one platform, and of all: more than any genuine image has.
const mostFound = 20_000;
const mostInAll = 50_000;
// Takes a few ms.
const readAtOnce = 500;

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
  vulnerabilities: z.custom<readonly unknown[]>(Array.isArray).nullable(),
});

/** What was found in an image so far: equal findings of several platforms are one. */
export type Findings = Map<string, Vulnerability>;

/**
 * Reads a vulnerability report of a Harbor scanner adapter, with pauses, and adds what it found. All of its texts come from outside:
 * they are cut here, and escaped where they are shown. Throws a `Fault` for a document that is not such a report, or that is about
 * another image.
 */
export async function readHarborReport(
  body: unknown,
  digest: string,
  findings: Findings,
): Promise<void> {
  const { artifact, vulnerabilities } = checked(harborReport, body);
  if (artifact?.digest && artifact.digest !== digest)
    throw unusable('a report about another image');
  await addVulnerabilities(vulnerabilities ?? [], findings);
}

/** Adds vulnerabilities in the form of Harbor's API, with pauses. Throws a `Fault` for other forms, and for too many. */
export async function addVulnerabilities(
  all: readonly unknown[],
  findings: Findings,
): Promise<void> {
  if (all.length > mostFound)
    throw unusable(`a report with more than ${mostFound} vulnerabilities`);
  for (let from = 0; from < all.length; from += readAtOnce) {
    for (const one of all.slice(from, from + readAtOnce)) {
      const found = vulnerabilityOf(checked(vulnerability, one));
      const { id, severity, pkgName, installedVersion } = found;
      findings.set(JSON.stringify([id, severity, pkgName, installedVersion]), found);
    }
    if (findings.size > mostInAll) {
      throw unusable(`reports with more than ${mostInAll} vulnerabilities in all`);
    }
    await pauseTurn();
  }
}

function checked<T extends z.ZodType>(schema: T, value: unknown): z.output<T> {
  const read = schema.safeParse(value);
  if (read.success) return read.data;
  throw unusable(`a report with a wrong ${read.error.issues[0]?.path.join('.') || 'form'}`);
}

function vulnerabilityOf(found: z.output<typeof vulnerability>): Vulnerability {
  const link = found.links?.[0];
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
}

/** Returns the report of an image: all counted, the most severe listed. */
export function reportOf(
  scanner: string,
  { vulnerabilities, packages }: Pick<FoundInImage, 'vulnerabilities' | 'packages'>,
): ScanReport {
  const counts: Partial<Record<Severity, number>> = {};
  const listed: Vulnerability[] = [];
  for (const [severity, some] of groupsOf(vulnerabilities.values())) {
    if (some.length > 0) counts[severity] = some.length;
    listed.push(...some.slice(0, mostListed - listed.length));
  }
  const listing = { scanner, counts, vulnerabilities: listed };
  if (packages === undefined) return listing;
  const count = packages.values().reduce((sum, { isSystem }) => sum + (isSystem ? 0 : 1), 0);
  return { ...listing, packages: count };
}

/** Returns vulnerabilities with the most severe first. */
export function bySeverity(found: Iterable<Vulnerability>): Vulnerability[] {
  return groupsOf(found).flatMap(([, some]) => some);
}

function groupsOf(found: Iterable<Vulnerability>): (readonly [Severity, Vulnerability[]])[] {
  const groups = Map.groupBy(found, ({ severity }) => severity);
  return severities.map(severity => [severity, groups.get(severity) ?? []] as const);
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
