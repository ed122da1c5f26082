/** How far a part of a step of a build is, such as a download. */
export interface PartProgress {
  /** Identifies the part within its step. */
  readonly id: string;
  readonly label: string;
  /** `4.19MB / 12.50MB`; empty if the log does not say it. */
  readonly amount: string;
  /** Bytes that are done, and all of them. 0 if unknown. */
  readonly bytes: number;
  readonly totalBytes: number;
  /** How long it has run; undefined if the log does not say it. */
  readonly seconds: number | undefined;
  /** 0 to 1; undefined if the end is unknown. */
  readonly share: number | undefined;
  readonly isDone: boolean;
}

/** The id of the part that stands for all packages of an environment. */
export const allPackages = 'packages';

const statusPattern =
  /^(.{1,400}?) {1,2}(\d{1,12}(?:\.\d{1,9})?[kMGT]?B(?: \/ \d{1,12}(?:\.\d{1,9})?[kMGT]?B)?)(?: (\d{1,9}\.\d)s)?( done)?$/;
const amountPattern =
  /^(\d{1,12}(?:\.\d{1,9})?)([kMGT]?)B(?: \/ (\d{1,12}(?:\.\d{1,9})?)([kMGT]?)B)?$/;
const packagesPattern = /^((\d{1,9}) \/ (\d{1,9}) packages)(?: (.{1,100}))?$/;
const sizeUnits = ['', 'k', 'M', 'G', 'T'];

/**
 * Reads the progress of a part from a line of a log, without the number of its step: `sha256:ab 4.19MB / 12.50MB 0.5s`, or that of all
 * packages, `1 / 3 packages 4.19MB / 12.50MB`. Returns undefined for other text.
 */
export function readProgress(text: string): PartProgress | undefined {
  const [, label, done, all, fetched = ''] = packagesPattern.exec(text) ?? [];
  if (label !== undefined) {
    return {
      ...bytesIn(fetched),
      id: allPackages,
      label,
      amount: fetched,
      seconds: undefined,
      share: shareOf(Number(done), Number(all)),
      isDone: false,
    };
  }
  const found = statusPattern.exec(text);
  if (!found) return undefined;
  const [, id = '', amount = '', seconds, end] = found;
  const known = bytesIn(amount);
  return {
    ...known,
    id,
    label: id,
    amount,
    seconds: seconds === undefined ? undefined : Number(seconds),
    share: shareOf(known.bytes, known.totalBytes),
    isDone: end !== undefined,
  };
}

function bytesIn(amount: string): Pick<PartProgress, 'bytes' | 'totalBytes'> {
  const [, number, unit, total, totalUnit] = amountPattern.exec(amount) ?? [];
  return { bytes: bytesOf(number, unit), totalBytes: bytesOf(total, totalUnit) };
}

function bytesOf(number = '0', unit = ''): number {
  return Math.round(Number(number) * 1000 ** sizeUnits.indexOf(unit));
}

function shareOf(part: number, whole: number): number | undefined {
  return whole > 0 ? Math.min(1, part / whole) : undefined;
}
