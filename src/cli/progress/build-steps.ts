import { type PartProgress, readProgress } from '../../foundation/part-progress.ts';

/** A step of a build, as its log reports it. Times are ms since the epoch. */
export interface BuildStep {
  readonly number: number;
  readonly name: string;
  state: 'running' | 'done' | 'cached' | 'failed' | 'cancelled';
  /** When it began, by the clock of this machine. */
  beganMs: number;
  /** How long it ran, after its end. */
  seconds: number;
  /** Its last output or progress. */
  lastLine: string | undefined;
  /** Its downloads and other parts that go on, by their ids. */
  readonly parts: Map<string, PartProgress>;
}

// What a log says of more parts is not shown.
const maxParts = 100;

/** The state of a build, from the lines of its log. */
export class BuildSteps {
  readonly #steps = new Map<number, BuildStep>();
  #isAfterText = false;
  /** Messages of the service, and the summary of a failure: lines that belong to no step. */
  readonly messages: string[] = [];
  readonly warnings: string[] = [];

  /** The steps in the order of their numbers. */
  get steps(): readonly BuildStep[] {
    return [...this.#steps.values()];
  }

  /** Reads the next line of the log, without its line break. */
  take(text: string, nowMs: number): void {
    const line = parseLogLine(text);
    if (line.step === undefined) {
      if (text.trim() === '') return;
      this.messages.push(text);
      this.#isAfterText = true;
      return;
    }
    // A build that starts again, for instance on another builder, numbers its steps from 1 again.
    if (line.step === 1 && this.#isAfterText && line.kind === 'text') this.#steps.clear();
    this.#isAfterText = false;
    const step = this.#steps.get(line.step);
    if (step) this.#change(step, line, nowMs);
    else if (line.kind === 'text' || line.kind === 'progress') {
      this.#begin(line.step, line.text, nowMs);
    }
  }

  #begin(number: number, name: string, beganMs: number): void {
    this.#steps.set(number, {
      number,
      name,
      beganMs,
      state: 'running',
      seconds: 0,
      lastLine: undefined,
      parts: new Map(),
    });
  }

  #change(step: BuildStep, line: StepLine, nowMs: number): void {
    if (['cached', 'done', 'error', 'cancelled'].includes(line.kind)) step.parts.clear();
    switch (line.kind) {
      case 'cached':
        step.state = 'cached';
        return;
      case 'done':
        step.state = 'done';
        step.seconds = line.seconds;
        return;
      case 'error':
      case 'cancelled':
        step.state = line.kind === 'error' ? 'failed' : 'cancelled';
        step.seconds = Math.max(0, nowMs - step.beganMs) / 1000;
        return;
      case 'warning':
        this.warnings.push(line.text);
        return;
      case 'output':
        step.lastLine = line.text;
        // The step may have run for a while before the log reported it.
        step.beganMs = Math.min(step.beganMs, nowMs - line.seconds * 1000);
        return;
      case 'progress': {
        const { parts } = step;
        const { part, text } = line;
        step.lastLine = text;
        if (part.isDone) parts.delete(part.id);
        else if (parts.has(part.id) || parts.size < maxParts) parts.set(part.id, part);
        return;
      }
      case 'text':
        if (line.text === step.name) step.state = 'running';
        else step.lastLine = line.text;
    }
  }
}

/** A line of a build's log. */
export type LogLine =
  /** A line of the step with this number. */
  | ({ readonly step: number } & StepLine)
  /** Any other line: a message of the service, or the summary of a failure. */
  | { readonly step: undefined; readonly text: string };

type StepLine =
  | { readonly kind: 'cached' | 'cancelled' | 'paused' }
  /** The step ran for so many seconds. */
  | { readonly kind: 'done'; readonly seconds: number }
  | { readonly kind: 'error' | 'warning'; readonly text: string }
  /** Output of the step, so many seconds after its start. */
  | { readonly kind: 'output'; readonly seconds: number; readonly text: string }
  /** How far a part of the step is. */
  | { readonly kind: 'progress'; readonly text: string; readonly part: PartProgress }
  /** The name of a new step; later its name again, or other text. */
  | { readonly kind: 'text'; readonly text: string };

/**
 * Reads a line of the format `--progress=plain`, in which each step has a number. Accepts any line.
 * Source: BuildKit, `util/progress/progressui/printer.go`.
 */
export function parseLogLine(line: string): LogLine {
  const match = /^#(\d{1,9}) (.*)$/s.exec(line);
  if (!match) return { step: undefined, text: line };
  const [, number = '', rest = ''] = match;
  return { step: Number(number), ...stepLine(rest) };
}

function stepLine(text: string): StepLine {
  if (text === 'CACHED') return { kind: 'cached' };
  if (text === 'CANCELED') return { kind: 'cancelled' };
  if (text === '...') return { kind: 'paused' };
  const done = /^DONE (\d+(?:\.\d+)?)s$/.exec(text);
  if (done) return { kind: 'done', seconds: Number(done[1]) };
  const message = /^(ERROR|WARN): (.*)$/s.exec(text);
  if (message)
    return { kind: message[1] === 'ERROR' ? 'error' : 'warning', text: message[2] ?? '' };
  const output = /^(\d+\.\d+) (.*)$/s.exec(text);
  if (output) return { kind: 'output', seconds: Number(output[1]), text: output[2] ?? '' };
  const part = readProgress(text);
  return part ? { kind: 'progress', text, part } : { kind: 'text', text };
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
