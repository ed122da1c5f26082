import type { LogLine } from '../../../builds/index.ts';
import { type Html, html } from '../../frame/html.ts';
import { colouredText, type LineLimits } from './coloured-text.ts';

/** Lines of a page of the log, and the most lines that a browser fetches at once. */
export const linesAtOnce = 300;
const mostOfLine: LineLimits = { chars: 2000, colours: 40 };
// A page has several such parts at most. A browser shows them without a delay.
const mostOfAll: LineLimits = { chars: 80_000, colours: 2000 };

/**
 * Returns lines of a log; their numbers are links to them. Where they are very long together, each shows less of itself.
 *
 * @param share part of the room for lines that these may take, from 0 to 1
 */
export function linesPart(lines: readonly LogLine[], share = 1): Html {
  const limits: LineLimits = {
    chars: fairMost(lines, ({ text }) => text.length, mostOfLine.chars, mostOfAll.chars * share),
    colours: fairMost(lines, coloursIn, mostOfLine.colours, mostOfAll.colours * share),
  };
  return html`${lines.map(line => html`<div class="line${kindOf(line.text)}" id="L${line.number}"${stepIn(line)}><a href="?line=${line.number}#L${line.number}">${line.number}</a><span>${shown(line, limits)}</span></div>`)}`;
}

/** Scripts find the lines of a step by its number. */
function stepIn({ text }: LogLine): Html | undefined {
  const [, step] = /^#(\d{1,6}) /.exec(text) ?? [];
  return step === undefined ? undefined : html` data-step="${step}"`;
}

function kindOf(text: string): string {
  const [, word] = /^#\d+ (ERROR|WARN|CANCELED)\b|^The build failed:/.exec(text) ?? [];
  if (word === 'WARN') return ' warn';
  return word !== undefined || text.startsWith('The build failed:') ? ' bad' : '';
}

function shown(line: LogLine, limits: LineLimits): Html {
  const isLong = line.isCut || line.text.length > limits.chars;
  return html`${colouredText(line, limits)}${isLong && '… (the whole line is in the download)'}`;
}

/** Counts the sequences for colours: at most one more than a line shows. */
function coloursIn({ coloured }: LogLine): number {
  let count = 0;
  for (
    let at = coloured.indexOf('\u001b');
    at >= 0 && count < mostOfLine.colours;
    at = coloured.indexOf('\u001b', at + 1)
  ) {
    count += 1;
  }
  return count;
}

/** Returns how much each line may show at most, so that all together stay below a limit. */
function fairMost(
  lines: readonly LogLine[],
  sizeOf: (line: LogLine) => number,
  mostOfOne: number,
  mostTogether: number,
): number {
  const sizes = lines.map(sizeOf);
  const sumOf = (most: number) => sizes.reduce((sum, size) => sum + Math.min(size, most), 0);
  let most = mostOfOne;
  while (most >= 1 && sumOf(most) > mostTogether) most = Math.floor(most / 2);
  return most;
}
