import { terminalLine } from '../../foundation/text/terminal-text.ts';
import { barLine, type PartProgress } from './bars.ts';
import type { BuildStep, BuildSteps } from './build-steps.ts';

export interface FrameOptions {
  /** ms since the epoch. */
  readonly nowMs: number;
  /** When the display began. */
  readonly beganMs: number;
  readonly columns: number;
  /** Maximum number of lines. The first finished steps are left out. */
  readonly rows: number;
  readonly style: (look: Look, text: string) => string;
}

export type Look = 'bold' | 'blue' | 'red' | 'dim';

/** Returns the lines that show a build: a heading, its steps, and the last line of each running step. */
export function frameOf(build: BuildSteps, options: FrameOptions): string[] {
  const { nowMs, beganMs, style } = options;
  const { steps, messages } = build;
  const over = steps.filter(({ state }) => state !== 'running');
  const seconds = secondsText((nowMs - beganMs) / 1000);
  const heading = style('bold', `[+] Building ${seconds} (${over.length}/${steps.length})`);
  if (steps.length === 0)
    return [heading, ` => ${clipped(messages.at(-1) ?? waiting, options, 4)}`];
  const blocks = steps.map(step => ({
    isOver: step.state !== 'running',
    lines: [stepLine(step, options), ...(step.state === 'running' ? partLines(step, options) : [])],
  }));
  const room = Math.max(1, options.rows - 1);
  let excess = blocks.reduce((sum, { lines }) => sum + lines.length, -room);
  const kept = blocks.filter(({ isOver }) => {
    if (excess <= 0 || !isOver) return true;
    excess -= 1;
    return false;
  });
  return [heading, ...kept.flatMap(({ lines }) => lines).slice(0, room)];
}

const waiting = 'waiting in the queue';
const partStart = ' => => ';
// Bars of one step.
const mostBars = 10;

/** Returns a bar for each part of a running step, or its last line. */
function partLines({ parts, lastLine }: BuildStep, { style, columns }: FrameOptions): string[] {
  const room = columns - partStart.length - 1;
  const texts =
    parts.size > 0
      ? [...parts.values()].slice(0, mostBars).map(part => barLine(plainPart(part), room))
      : lastLine === undefined
        ? []
        : [clipped(lastLine, { columns }, partStart.length)];
  return texts.map(text => style('dim', partStart + text));
}

function plainPart(part: PartProgress): PartProgress {
  return { ...part, label: plainText(part.label), amount: plainText(part.amount) };
}

/** Returns the lines that show a finished build. */
export function lastFrameOf(
  build: BuildSteps,
  succeeded: boolean,
  options: FrameOptions,
): string[] {
  const { style, nowMs, beganMs } = options;
  const { steps, warnings } = build;
  const cached = steps.filter(({ state }) => state === 'cached').length;
  const seconds = secondsText((nowMs - beganMs) / 1000);
  const counts = `${steps.length} steps, ${cached} of them cached`;
  const heading = succeeded
    ? style('bold', `[+] Built in ${seconds}: ${counts}`)
    : style('red', `[+] Failed after ${seconds}: ${counts}`);
  return [
    heading,
    ...steps.map(step => stepLine(step, options)),
    ...warnings.map(text => `Warning: ${terminalLine(text)}`),
  ];
}

function stepLine(step: BuildStep, options: FrameOptions): string {
  const { name, state, seconds, beganMs } = step;
  const { columns, style, nowMs } = options;
  const time = secondsText(state === 'running' ? (nowMs - beganMs) / 1000 : seconds);
  const mark = {
    running: '',
    done: '',
    cached: 'CACHED ',
    failed: 'ERROR ',
    cancelled: 'CANCELED ',
  };
  const room = Math.max(10, columns - time.length - 2);
  const text = clipped(` => ${mark[state]}${name}`, { columns: room }, 0).padEnd(room);
  const line = `${text} ${time}`;
  if (state === 'running') return line;
  return style(state === 'failed' ? 'red' : 'blue', line);
}

function secondsText(seconds: number): string {
  return `${Math.max(0, seconds).toFixed(1)}s`;
}

/** Returns one line of plain characters, cut at the width of the terminal. */
function clipped(text: string, { columns }: { readonly columns: number }, indent: number): string {
  const plain = plainText(text);
  const room = Math.max(4, columns - indent - 1);
  return plain.length > room ? `${plain.slice(0, room - 3)}...` : plain;
}

/** Returns text without control characters. The last part of a line that was drawn over is the newest. */
function plainText(text: string): string {
  return text
    .replace(/^.*\r(?=.)/s, '')
    .replace(/\t/g, ' ')
    .replace(/\p{Cc}/gu, '');
}
