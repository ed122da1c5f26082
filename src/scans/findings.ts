import { compareTexts } from '../foundation/text.ts';
import { type Severity, severities, type Vulnerability } from './vulnerability.ts';

/** The orders of a list of vulnerabilities. */
export const findingOrders = ['severity', 'package', 'vulnerability'] as const;

/** Which vulnerabilities of a scan to list. All conditions hold together. */
export interface FindingsQuery {
  readonly severity?: Severity | undefined;
  /** Part of the name of the package or of the vulnerability, in upper or lower case. */
  readonly name?: string | undefined;
  /** True: only those that a newer version of their package does not have. */
  readonly isFixed?: boolean | undefined;
  /** Default: `severity`, the most severe first. */
  readonly sort?: (typeof findingOrders)[number] | undefined;
  /** Page of the list. Default: 1. */
  readonly page?: number | undefined;
}

/** One page of a list of vulnerabilities. */
export interface FindingsPage {
  readonly rows: readonly Vulnerability[];
  /** Number of all rows of the list. */
  readonly count: number;
  readonly page: number;
  readonly pages: number;
}

const rowsPerPage = 100;

/**
 * Returns a page of vulnerabilities; the last one for a number beyond it. At most 5,000 are kept of a scan, which takes a few ms.
 *
 * @param all the most severe first
 */
export function chooseFindings(all: readonly Vulnerability[], query: FindingsQuery): FindingsPage {
  const { severity, isFixed, sort = 'severity' } = query;
  const name = query.name?.toLowerCase() ?? '';
  const chosen = all.filter(
    found =>
      (severity === undefined || found.severity === severity) &&
      (!isFixed || found.fixedVersion !== undefined) &&
      (name === '' ||
        found.pkgName.toLowerCase().includes(name) ||
        found.id.toLowerCase().includes(name)),
  );
  if (sort !== 'severity') {
    const key = sort === 'package' ? 'pkgName' : 'id';
    // Equal names stay in the order of their severity.
    chosen.sort((one, other) => compareTexts(one[key], other[key]));
  }
  const pages = Math.max(1, Math.ceil(chosen.length / rowsPerPage));
  const page = Math.min(query.page ?? 1, pages);
  const rows = chosen.slice((page - 1) * rowsPerPage, page * rowsPerPage);
  return { rows, count: chosen.length, page, pages };
}

/** Returns how many of a report's vulnerabilities are counted. */
export function countAll(counts: Readonly<Partial<Record<Severity, number>>>): number {
  return severities.reduce((sum, severity) => sum + (counts[severity] ?? 0), 0);
}
