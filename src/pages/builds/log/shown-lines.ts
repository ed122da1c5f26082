import type { LogLine } from '../../../builds/logs/log-lines.ts';
import { type Html, html } from '../../frame/html.ts';
import { colouredText } from './coloured-text.ts';

/** Lines of a page of the log, and the most lines that a browser fetches at once. */
export const linesAtOnce = 300;
const mostChars = 2000;

/** Returns lines of a log; their numbers are links to them. */
export function linesPart(lines: readonly LogLine[]): Html {
  return html`${lines.map(line => html`<div class="line${kindOf(line.text)}" id="L${line.number}"${stepIn(line)}><a href="?line=${line.number}#L${line.number}">${line.number}</a><span>${shown(line)}</span></div>`)}`;
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

function shown({ text, coloured, isCut }: LogLine): Html {
  const isLong = isCut || text.length > mostChars;
  return html`${colouredText(coloured, mostChars)}${isLong && '… (the whole line is in the download)'}`;
}
