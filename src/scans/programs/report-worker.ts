/** Reads the files of a program that scanned an image. Parsing them takes too long for the thread of the server. */
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { serveTask } from '../../conda/threads/one-task.ts';
import { unusable } from '../unusable-report.ts';
import { billFile, type ProgramKind, reportFile } from './program-kinds.ts';
import { readProgramReport } from './program-reports.ts';

export interface ReportOrder {
  readonly kind: ProgramKind;
  readonly folder: string;
}

// Those of images with thousands of vulnerabilities have 20 MB.
const mostBytes = 48 * 1024 * 1024;

/** Lines of JSON, which the thread of the server reads in turns. Objects would arrive there in one step. */
export interface ReportLines {
  readonly vulnerabilities: Uint8Array;
  readonly packages: Uint8Array;
}

serveTask(({ kind, folder }: ReportOrder): ReportLines => {
  const { vulnerabilities, packages } = readProgramReport(kind, {
    report: read(join(folder, reportFile)),
    bill: kind === 'grype' ? read(join(folder, billFile)) : undefined,
  });
  return { vulnerabilities: linesOf(vulnerabilities), packages: linesOf(packages) };
});

function linesOf(values: readonly object[]): Uint8Array {
  return new TextEncoder().encode(values.map(value => JSON.stringify(value)).join('\n'));
}

function read(path: string): unknown {
  const size = statSync(path, { throwIfNoEntry: false })?.size;
  if (size === undefined) throw unusable('no report');
  if (size > mostBytes) throw unusable(`a report of more than ${mostBytes / 1024 / 1024} MiB`);
  try {
    return JSON.parse(readFileSync(path, 'utf8'));
  } catch {
    throw unusable('something that is not JSON');
  }
}
