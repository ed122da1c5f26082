import { type PartProgress, readProgress } from './bars.ts';

/** A line of a build's log. */
export type LogLine =
  /** A line of the step with this number. */
  | ({ readonly step: number } & StepLine)
  /** Any other line: a message of the service, or the summary of a failure. */
  | { readonly step: undefined; readonly text: string };

export type StepLine =
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
