/** How far a part of a step is, such as a download. */
export interface PartProgress {
  /** Identifies the part within its step. */
  readonly id: string;
  readonly label: string;
  /** `4.19MB / 12.50MB`; empty if the log does not say it. */
  readonly amount: string;
  /** 0 to 1; undefined if the end is unknown. */
  readonly share: number | undefined;
  readonly isDone: boolean;
}

const size = /(\d{1,12}(?:\.\d{1,9})?)([kMGT]?)B/;
const status = new RegExp(
  `^(.{1,400}?) {1,2}(${size.source}(?: / ${size.source})?)(?: \\d+\\.\\ds)?( done)?$`,
);
const packages = /^((\d{1,9}) \/ (\d{1,9}) packages)(?: (.{1,100}))?$/;
const units = ['', 'k', 'M', 'G', 'T'];

/**
 * Reads the progress of a part, such as `sha256:ab 4.19MB / 12.50MB 0.5s`, or that of all packages, such as
 * `1 / 3 packages 4.19MB / 12.50MB`. Returns undefined for other text.
 */
export function readProgress(text: string): PartProgress | undefined {
  const [, label, done, all, bytes = ''] = packages.exec(text) ?? [];
  if (label !== undefined) {
    const share = shareOf(Number(done), Number(all));
    return { id: 'packages', label, amount: bytes, share, isDone: false };
  }
  const found = status.exec(text);
  if (!found) return undefined;
  const [, id = '', amount = '', number, unit, total, totalUnit, end] = found;
  const share =
    total === undefined ? undefined : shareOf(bytesOf(number, unit), bytesOf(total, totalUnit));
  return { id, label: id, amount, share, isDone: end !== undefined };
}

function bytesOf(number = '0', unit = ''): number {
  return Number(number) * 1000 ** units.indexOf(unit);
}

function shareOf(part: number, whole: number): number | undefined {
  return whole > 0 ? Math.min(1, part / whole) : undefined;
}

const mostBar = 30;
const leastBar = 10;
const leastLabel = 12;

/** Returns a line of exactly so many columns: the label, a bar where there is room for one, and the amount. */
export function barLine({ label, amount, share }: PartProgress, columns: number): string {
  const end = amount === '' ? '' : ` ${amount.padStart(19)}`;
  const room = columns - end.length;
  const bar = Math.min(mostBar, room - leastLabel - 3);
  const drawn = share === undefined || bar < leastBar ? '' : ` ${drawBar(share, bar)}`;
  const left = Math.max(4, room - drawn.length);
  const text = label.length > left ? `${label.slice(0, left - 3)}...` : label.padEnd(left);
  return `${text}${drawn}${end}`.slice(0, Math.max(0, columns));
}

/** Returns a bar like `[=====>    ]`. */
function drawBar(share: number, width: number): string {
  const inner = width - 2;
  const done = Math.round(share * inner);
  const head = done > 0 && done < inner ? '>' : '';
  return `[${`${'='.repeat(Math.max(0, done - head.length))}${head}`.padEnd(inner)}]`;
}
