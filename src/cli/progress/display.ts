import { StringDecoder } from 'node:string_decoder';
import { styleText } from 'node:util';
import type { PartProgress } from '../../foundation/part-progress.ts';
import { terminalLine, terminalLines } from '../../foundation/text.ts';
import { type BuildStep, BuildSteps, barLine } from './build-steps.ts';

/** How a build ended. */
export interface BuildResult {
  readonly succeeded: boolean;
  /** Its seconds, by the server. Default: since the display began. */
  readonly duration?: number;
}

/** Shows the log of a build. */
export interface ProgressDisplay {
  /** Shows the next bytes of the log. */
  write(piece: Uint8Array): void;
  /** Shows how the build ended; undefined for a build that continues. */
  end(result: BuildResult | undefined): void;
}

const redrawMs = 100;
// Moves the cursor up and clears below it. Long lines are cut, not wrapped.
const up = (lines: number) => (lines > 0 ? `\x1b[${lines}A\x1b[J` : '');
const wrapOff = '\x1b[?7l\x1b[?25l';
const wrapOn = '\x1b[?7h\x1b[?25h';

/**
 * Redraws steps in place on a terminal, and prints the lines of the log elsewhere.
 *
 * @param beganMs since when the user waits
 */
export function progressDisplay(
  sink: NodeJS.WriteStream,
  isPlain: boolean,
  beganMs = Date.now(),
): ProgressDisplay {
  const isTerminal = sink.isTTY && process.env.TERM !== 'dumb';
  return isTerminal && !isPlain ? liveDisplay(sink, beganMs) : plainDisplay(sink);
}

function plainDisplay(sink: NodeJS.WriteStream): ProgressDisplay {
  return {
    write(piece) {
      sink.write(piece);
    },
    end() {},
  };
}

function liveDisplay(sink: NodeJS.WriteStream, beganMs: number): ProgressDisplay {
  const build = new BuildSteps();
  const decoder = new StringDecoder('utf8');
  let rest = '';
  let height = 0;
  const options = (): FrameOptions => ({
    nowMs: Date.now(),
    beganMs,
    columns: sink.columns || 80,
    rows: (sink.rows || 24) - 1,
    style: (look: Look, text: string) => styleText(look, text, { stream: sink }),
  });
  const textOf = (lines: readonly string[]) => lines.map(line => `${line}\n`).join('');
  const redraw = () => {
    const lines = frameOf(build, options());
    sink.write(`${up(height)}${wrapOff}${textOf(lines)}${wrapOn}`);
    height = lines.length;
  };
  redraw();
  const timer = setInterval(redraw, redrawMs);
  return {
    write(piece) {
      const lines = (rest + decoder.write(Buffer.from(piece))).split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) build.take(line, Date.now());
    },
    end(result) {
      clearInterval(timer);
      if (rest !== '') build.take(rest, Date.now());
      if (result === undefined) return redraw();
      const { succeeded, duration } = result;
      const messages = build.messages.flatMap(text => terminalLines(text).split('\n'));
      const lines = [
        ...lastFrameOf(build, succeeded, options(), duration),
        ...(succeeded ? [] : ['', ...messages]),
      ];
      // Wrapped, not cut: the messages say why the build failed.
      sink.write(`${up(height)}${textOf(lines)}`);
    },
  };
}

interface FrameOptions {
  /** ms since the epoch. */
  readonly nowMs: number;
  /** When the display began. */
  readonly beganMs: number;
  readonly columns: number;
  /** Maximum number of lines. The first finished steps are left out. */
  readonly rows: number;
  readonly style: (look: Look, text: string) => string;
}

type Look = 'bold' | 'blue' | 'red' | 'dim';

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
  duration = (options.nowMs - options.beganMs) / 1000,
): string[] {
  const { style } = options;
  const { steps, warnings } = build;
  const cached = steps.filter(({ state }) => state === 'cached').length;
  const seconds = secondsText(duration);
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

// A whole digest leaves no room for what happens to it. The log has it.
const longDigest = /\b(sha256:[0-9a-f]{12})[0-9a-f]{52}\b/g;

/** Returns text without control characters and long digests. The last part of a line that was drawn over is the newest. */
function plainText(text: string): string {
  return text
    .replace(/^.*\r(?=.)/s, '')
    .replace(longDigest, '$1...')
    .replace(/\t/g, ' ')
    .replace(/\p{Cc}/gu, '');
}
