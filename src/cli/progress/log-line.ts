/** What a line of a build's log says. */
export type LogLine =
  /** A line of the step with this number. */
  | ({ readonly step: number } & StepLine)
  /** Anything else: what the service says, and the summary of a failure. */
  | { readonly step: undefined; readonly text: string };

export type StepLine =
  | { readonly kind: 'cached' | 'cancelled' | 'paused' }
  /** It ran for so many seconds. */
  | { readonly kind: 'done'; readonly seconds: number }
  | { readonly kind: 'error' | 'warning'; readonly text: string }
  /** Something it wrote, so many seconds after its start. */
  | { readonly kind: 'output'; readonly seconds: number; readonly text: string }
  /** Its name when it is new, else its name once more or how far a part of it is. */
  | { readonly kind: 'text'; readonly text: string };

/**
 * Reads a line of the text of `--progress=plain`, in which each step has a number. Any line is taken.
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
  const told = /^(ERROR|WARN): (.*)$/s.exec(text);
  if (told) return { kind: told[1] === 'ERROR' ? 'error' : 'warning', text: told[2] ?? '' };
  const output = /^(\d+\.\d+) (.*)$/s.exec(text);
  if (output) return { kind: 'output', seconds: Number(output[1]), text: output[2] ?? '' };
  return { kind: 'text', text };
}
